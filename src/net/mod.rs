//! Connections to other services: a TLS client configuration and a small HTTP client. Certificates
//! are always verified.

mod http_client;
pub mod tls;

pub use http_client::{HttpClient, HttpError};
pub use tls::AuthoritiesError;
