//! Redis in each of its topologies: how replicas connect, and what a fail-over does. Also how the
//! names of stores are resolved.

mod cluster;
mod logins;
mod names;
mod sentinel;
mod steady_load;
mod tls;
