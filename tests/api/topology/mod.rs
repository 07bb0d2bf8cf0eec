//! Redis in each of its topologies: how replicas connect, and what a fail-over does. Also how the
//! names of stores are resolved.

mod cluster;
mod hammer;
mod logins;
mod names;
mod sentinel;
mod tls;
