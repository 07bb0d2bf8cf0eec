//! Redis in each of its topologies: how it is reached, and what a fail-over does.

mod cluster;
mod hammer;
mod logins;
mod sentinel;
mod tls;
