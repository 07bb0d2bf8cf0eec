//! Connections to other services (a TLS client configuration and a small HTTP client; certificates
//! are always verified), and the sources that requests come from.

mod failure_limiter;
mod http_client;
mod source;
mod source_queue;
pub mod tls;

pub(crate) use failure_limiter::FailureLimiter;
pub use http_client::{HttpClient, HttpError};
pub use source::RequestSource;
pub(crate) use source_queue::{QueueTurn, SourceQueue};
pub use tls::AuthoritiesError;
