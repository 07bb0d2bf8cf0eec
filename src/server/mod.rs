//! Serves HTTP/1.1 and HTTP/2 on a TCP listener, with or without TLS.
//!
//! Connections are bounded in number, in total and for each peer, and every wait for a client has
//! a timeout. At shutdown, requests in progress may finish within a grace time.

mod connection;
mod connection_activity;
mod connection_limits;
mod crowd;
mod delivery;
mod handler;
mod head_memory;
mod host;
mod http_builder;
mod listener;
mod peers;
mod request_body;
mod shutdown_signals;
mod stream_executor;
mod streams;
mod timed_io;
mod tls;
mod tracked_body;
mod watchdog;

pub(crate) use connection::NOSNIFF;
pub use connection_limits::ConnectionLimits;
pub use handler::Handler;
pub use host::InvalidHost;
pub use listener::{Listener, Serving, serve};
pub use peers::Peers;
pub use tls::{ServerTls, ServerTlsError};
