//! API keys: their form, who may come in, their records, how they are managed and used.

mod authenticator;
pub(crate) mod base62;
mod budget;
mod first_looks;
mod look_ups;
mod memory;
mod postgres;
mod prefix;
mod records;
mod sql;
pub mod store;
mod token;
mod usage;

pub use authenticator::{Authenticator, Denial, NotAuthenticated, READ_SCOPE};
pub use base62::NoRandomness;
pub(crate) use budget::Budget;
pub use memory::MemoryKeys;
pub use postgres::PostgresKeys;
pub use prefix::{KeyPrefix, NotAPrefix};
pub use store::{KeyStore, NewKey};
pub use token::{ApiKey, MalformedKey};
pub use usage::{Usage, UsageCounts, UsageWriter};
