//! Connections to other services (a TLS client configuration and a small HTTP client; certificates
//! are always verified), and the sources that requests come from.

mod failure_limiter;
mod http_client;
mod source;
pub mod tls;

pub(crate) use failure_limiter::FailureLimiter;
pub use http_client::{HttpClient, HttpError};
pub use source::RequestSource;
pub use tls::AuthoritiesError;
