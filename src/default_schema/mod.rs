//! The default schema, for operators without an existing registry: its migrations and roles, its
//! data, and its housekeeping. Only commands use it: replicas read the views, whatever is
//! behind them.

mod error;
pub mod generate;
pub mod maintain;
pub mod migrate;
mod roles;
pub mod seed;
pub mod setup;

pub use error::StatementError;
