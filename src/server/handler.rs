//! What a listener needs of the application: a response to each request.

use std::future::Future;

use poem::{Request, Response};

/// Answers requests.
pub trait Handler: Send + Sync + 'static {
    /// The response to `request`. It cannot fail: errors are responses too.
    fn handle(&self, request: Request) -> impl Future<Output = Response> + Send;
}
