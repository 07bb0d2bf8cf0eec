//! Response bodies on HTTP/2, in pieces that report when they have been sent.
//!
//! The HTTP library does not say when a body has been written: it takes a piece as soon as the
//! stream's window has room for one byte, and buffers what does not fit. Each piece therefore
//! holds its stream's [`ResponseTimer`] and reports to it when its memory is freed: once it has
//! been written or discarded.
//!
//! The last byte of a body is a piece of its own. The library waits for room in the window before
//! it takes a piece, and so keeps the stream's task, which can be aborted, until the window covers
//! the whole body.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body_util::combinators::BoxBody;
use hyper::body::{Body, Frame, SizeHint};

use super::streams::ResponseTimer;

/// The largest piece, in bytes: the default maximum of a DATA frame.
const MAX_PIECE_BYTES: usize = 16 * 1024;

/// A body handed out in pieces of at most [`MAX_PIECE_BYTES`] bytes that share the body's memory.
pub(super) struct TrackedBody {
    body: BoxBody<Bytes, io::Error>,
    /// Bytes of the body that have not been handed out yet.
    rest: Bytes,
    timer: Arc<ResponseTimer>,
}

impl TrackedBody {
    pub(super) fn new(body: BoxBody<Bytes, io::Error>, timer: Arc<ResponseTimer>) -> Self {
        Self { body, rest: Bytes::new(), timer }
    }

    fn next_piece(&mut self) -> Bytes {
        let mut length = self.rest.len().min(MAX_PIECE_BYTES);
        if length > 1 && length == self.rest.len() && self.body.is_end_stream() {
            length -= 1;
        }
        let bytes = self.rest.split_to(length);
        Bytes::from_owner(Piece { bytes, timer: Arc::clone(&self.timer) })
    }
}

/// The memory of a piece.
struct Piece {
    bytes: Bytes,
    timer: Arc<ResponseTimer>,
}

impl AsRef<[u8]> for Piece {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        self.timer.sent(self.bytes.len());
    }
}

impl Body for TrackedBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        while self.rest.is_empty() {
            let Some(frame) = ready!(Pin::new(&mut self.body).poll_frame(context)?) else {
                return Poll::Ready(None);
            };
            match frame.into_data() {
                Ok(data) => self.rest = data,
                Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
            }
        }
        Poll::Ready(Some(Ok(Frame::data(self.next_piece()))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (rest, body) = (self.rest.len() as u64, self.body.size_hint());
        let mut hint = SizeHint::new();
        hint.set_lower(body.lower() + rest);
        if let Some(upper) = body.upper() {
            hint.set_upper(upper + rest);
        }
        hint
    }
}
