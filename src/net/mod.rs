//! Connections to other services (a TLS client configuration and a small HTTP client; certificates
//! are always verified), the values of database columns, the sources that requests come from, and the
//! reasons of failed I/O.

mod column_types;
mod failure_limiter;
mod http_client;
mod io_reason;
mod source;
mod source_queue;
pub mod tls;

pub(crate) use column_types::{PgJson, PgText, PgTimestamp};
pub(crate) use failure_limiter::FailureLimiter;
pub use http_client::{HttpClient, HttpError};
pub use io_reason::io_reason;
pub use source::RequestSource;
pub(crate) use source_queue::{QueueTurn, SourceQueue};
pub use tls::AuthoritiesError;
