//! API keys: their format, authentication by their records, their management, and the counts of
//! their use.

mod audit_log;
mod auth_error;
mod authenticator;
mod key_limits;
pub(crate) mod key_rules;
mod live_keys;
mod lookup_limiter;
mod memory;
mod memory_queries;
mod postgres;
mod prefix;
mod record_loader;
mod record_store;
mod records;
mod rotation;
pub(crate) mod secret_token;
mod sql;
pub mod store;
mod token;
mod update;
mod usage;

pub use audit_log::AuditLog;
pub use auth_error::{AuthDenied, NotAuthenticated};
pub use authenticator::Authenticator;
#[cfg(feature = "fuzzing")]
pub(crate) use authenticator::is_external_key;
pub use key_limits::{KeyLimits, LimitExceeded, UselessKey};
pub use memory::MemoryKeys;
pub(crate) use postgres::MAX_STORE_CONNECTIONS;
pub use postgres::PostgresKeys;
pub use prefix::{KeyPrefix, NotAPrefix};
pub use secret_token::NoRandomness;
pub use sql::insert_key;
pub use store::{KeyChange, KeySpec, KeyStore, NewKey, Usage};
#[cfg(feature = "fuzzing")]
pub(crate) use token::is_key;
pub use token::{ApiKey, MalformedKey};
pub use usage::{UsageCounts, UsageWriter};

pub use crate::registry::READ_SCOPE;
