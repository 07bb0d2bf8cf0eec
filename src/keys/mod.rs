//! API keys: their format, authentication against their records, their management, and the counts of
//! their use.

mod authenticator;
pub(crate) mod key_rules;
mod lookup_limiter;
mod memory;
mod postgres;
mod prefix;
mod record_loader;
mod records;
pub(crate) mod secret_token;
mod sql;
pub mod store;
mod token;
mod usage;

pub use authenticator::{AuthDenied, Authenticator, NotAuthenticated, READ_SCOPE};
pub use memory::MemoryKeys;
pub use postgres::PostgresKeys;
pub use prefix::{KeyPrefix, NotAPrefix};
pub use secret_token::NoRandomness;
pub use store::{KeyStore, NewKey};
pub use token::{ApiKey, MalformedKey};
pub use usage::{Usage, UsageCounts, UsageWriter};
