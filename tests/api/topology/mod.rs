//! Redis in each of its topologies: how it is reached, and what a fail-over does. How stores are
//! found by name.

mod cluster;
mod hammer;
mod logins;
mod names;
mod sentinel;
mod tls;
