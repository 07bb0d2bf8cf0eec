//! What a listener needs of the application: a response to each request.

use std::future::Future;

use poem::{Request, Response};

use super::host::InvalidHost;

/// Answers requests.
pub trait Handler: Send + Sync + 'static {
    /// The response to `request`: to one without a valid host, the error 400. It cannot fail: errors
    /// are responses too.
    fn handle(
        &self,
        request: Request,
        host: Result<(), InvalidHost>,
    ) -> impl Future<Output = Response> + Send;
}
