//! Reads the bodies of requests on HTTP/2 to their end, whether or not a handler wants them. What the
//! client sends of a body that nobody reads, its trailers above all, the HTTP library would keep in
//! memory until the response has been sent, and a client need not take that.

use std::io;

use bytes::{Bytes, BytesMut};
use futures_util::FutureExt;
use http_body_util::BodyExt;
use http_body_util::combinators::BoxBody;
use poem::Body;
use tokio::sync::oneshot;
use tokio_util::task::AbortOnDropHandle;

/// Bytes of a body that a handler gets at most: more than any handler takes. The rest is discarded.
const MAX_BYTES: usize = 32 * 1024;

/// Begins to read a body. Returns it as a handler reads it, and the task, which must be kept until
/// the response has been sent.
pub(super) fn read_in_background(body: Body) -> (Body, AbortOnDropHandle<()>) {
    let (sender, received) = oneshot::channel();
    let task = AbortOnDropHandle::new(tokio::spawn(read_to_end(body.into(), sender)));
    let received = received.map(|bytes| bytes.map_err(|_| io::ErrorKind::UnexpectedEof.into()));
    (Body::from_bytes_stream::<_, Bytes, io::Error>(received.into_stream()), task)
}

async fn read_to_end(mut body: BoxBody<Bytes, io::Error>, sender: oneshot::Sender<Bytes>) {
    let mut bytes = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let Ok(frame) = frame else { return };
        match frame.into_data() {
            Ok(data) if !sender.is_closed() && bytes.len() < MAX_BYTES => bytes.extend(data),
            // Trailers, or data for nobody.
            _ => {}
        }
        if sender.is_closed() {
            bytes = BytesMut::new();
        }
    }
    // The handler may have responded already.
    let _ = sender.send(bytes.freeze());
}
