//! The two upstreams, Postgres and the embedded one: required behaviour, equal results, and the
//! invariants of the default Postgres schema.

mod behaviour;
mod changes;
mod connection;
pub(crate) mod database;
mod invalid_rows;
mod maintain;
mod many_keys;
mod plans;
mod property;
mod roles;
mod schema;
mod sums;
