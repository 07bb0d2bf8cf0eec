//! API keys: their form, who may come in, their records, how they are managed and used.

mod authenticator;
mod first_looks;
mod look_ups;
mod memory;
mod postgres;
mod prefix;
mod records;
pub(crate) mod sealed;
mod sql;
pub mod store;
pub(crate) mod terms;
mod token;
mod usage;

pub use authenticator::{Authenticator, Denial, NotAuthenticated, READ_SCOPE};
pub use memory::MemoryKeys;
pub use postgres::PostgresKeys;
pub use prefix::{KeyPrefix, NotAPrefix};
pub use sealed::NoRandomness;
pub use store::{KeyStore, NewKey};
pub use token::{ApiKey, MalformedKey};
pub use usage::{Usage, UsageCounts, UsageWriter};
