//! Redis in each of its topologies: how replicas connect and what a fail-over does. Also how stores
//! are found by name.

mod cluster;
mod hammer;
mod logins;
mod names;
mod sentinel;
mod tls;
