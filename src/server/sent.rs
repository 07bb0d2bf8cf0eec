//! When an answer has really been sent on HTTP/2. The body's end does not tell: the library takes
//! all of it at once and keeps what the peer has no window for. Each piece of it therefore carries
//! a mark that is dropped with the piece's memory, once that has been written or given up.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body_util::combinators::BoxBody;
use hyper::body::{Body, Frame, SizeHint};

use super::watchdog::Sending;

/// A body whose pieces are marked.
pub(super) struct Sent {
    body: BoxBody<Bytes, io::Error>,
    mark: Arc<Sending>,
}

impl Sent {
    pub(super) fn new(body: BoxBody<Bytes, io::Error>, mark: Arc<Sending>) -> Self {
        Self { body, mark }
    }
}

/// Memory of a piece, with the mark.
struct Marked(Bytes, #[expect(dead_code, reason = "it is dropped")] Arc<Sending>);

impl AsRef<[u8]> for Marked {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Body for Sent {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        let marked = |piece| Bytes::from_owner(Marked(piece, Arc::clone(&self.mark)));
        Poll::Ready(frame.map(|frame| frame.map(|frame| frame.map_data(marked))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
