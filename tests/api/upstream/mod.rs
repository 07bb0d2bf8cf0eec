//! The two upstreams: what each must do, that both answer the same, and what the default schema
//! of the Postgres one keeps true.

mod broken;
mod changes;
mod connection;
mod database;
mod maintain;
mod many_keys;
mod plans;
mod property;
mod schema;
mod suite;
mod sums;
