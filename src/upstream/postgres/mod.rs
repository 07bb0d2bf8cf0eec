//! The registry in Postgres: reads through the views of schema `registry_read`.

mod checked_out;
mod connect;
mod failure;
mod feed;
mod foreign_changes;
mod hosts;
mod pool;
mod queries;
mod reader;
mod rows;
mod url;

pub use connect::{ConnectError, check, connect};
pub(crate) use connect::{Pool, PoolError, PooledConnection, small_pool};
pub(crate) use hosts::{HostError, NoUsableHost};
pub(crate) use pool::QueryParam;
pub(crate) use queries::{
    API_KEYS, COUNTS, FITNESS, INSIGHTS, PHENOTYPE, Statement, VIEWS, WITHIN_CONTRACT, count,
};
pub use reader::{Postgres, search_statement};
#[cfg(feature = "fuzzing")]
pub(crate) use rows::parse_scope;
pub use url::SetupError;
