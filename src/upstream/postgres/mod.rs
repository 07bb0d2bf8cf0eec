//! The registry in Postgres: reads through the views of schema `registry_read`, and the default
//! schema behind these views, for operators without an existing registry.

mod broken_rows;
mod checked_out;
mod connect;
mod connection_budget;
mod failure;
mod feed;
mod foreign_changes;
mod hosts;
pub mod maintain;
mod manager;
mod pool;
mod queries;
mod reader;
mod rows;
pub mod schema;
pub mod seed;
mod setup_error;
mod standby_urls;
mod timestamp;
mod tls;
mod url;

pub(crate) use connect::small_pool;
pub use connect::{ConnectError, check, connect};
pub(crate) use manager::{Pool, PoolError, PooledConnection};
pub use reader::{Postgres, search_statement};
pub use setup_error::SetupError;
