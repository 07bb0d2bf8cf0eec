//! The default schema, for operators without an existing registry: its migrations and roles, its
//! sample data, and its housekeeping. Only commands use it: replicas read the views, whatever is
//! behind them.

pub mod maintain;
pub mod migrate;
mod roles;
pub mod seed;
