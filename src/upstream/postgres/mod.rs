//! The registry in Postgres: reads through the views of schema `registry_read`, and the default
//! schema behind these views, for operators without an existing registry.

mod broken_rows;
mod checked_out;
mod connect;
mod failure;
mod feed;
mod foreign_changes;
mod hosts;
pub mod maintain;
mod pool;
mod queries;
mod reader;
mod roles;
mod rows;
pub mod schema;
pub mod seed;
mod timestamp;
mod url;

pub use connect::{ConnectError, check, connect};
pub(crate) use connect::{Pool, PoolError, PooledConnection, small_pool};
pub use reader::{Postgres, search_statement};
#[cfg(feature = "fuzzing")]
pub(crate) use rows::parse_scope;
pub use url::SetupError;
