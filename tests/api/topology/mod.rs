//! Redis in each of its topologies: how it is reached, and what a fail-over does.

mod logins;
mod tls;
