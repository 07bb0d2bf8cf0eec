//! Configures the HTTP library: how much a client may send, and how much is buffered for it.

use hyper_util::server::conn::auto::Builder;

use super::stream_executor::StreamExecutor;

/// The largest head of a request, in bytes and in fields.
const MAX_HEAD_BYTES: usize = 64 * 1024;
pub(super) const MAX_HEADER_FIELDS: usize = 256;

/// Requests in progress at once on one HTTP/2 connection.
const MAX_STREAMS: u32 = 32;

/// Streams that the client may reset before they are accepted, and streams that may be reset for
/// its protocol errors. One more ends the connection (CVE-2023-44487, CVE-2025-8671).
const MAX_PENDING_RESETS: usize = 20;
const MAX_OWN_RESETS: usize = 128;

/// Bytes of request bodies that a client may send before they are read.
const BODY_WINDOW: u32 = 64 * 1024;

/// Bytes of a response that the library buffers for one HTTP/2 stream.
const MAX_SEND_BUFFER: usize = 64 * 1024;

/// HTTP/1.1, and HTTP/2 by prior knowledge or ALPN, on one connection.
pub(super) fn http_builder(executor: StreamExecutor) -> Builder<StreamExecutor> {
    let mut builder = Builder::new(executor);
    // The watchdog times heads and idle connections, on both protocols.
    builder.http1().header_read_timeout(None).max_buf_size(MAX_HEAD_BYTES);
    // No `pipeline_flush`: with it the response to a malformed head, whose bytes stay unread, is
    // never sent.
    builder.http1().max_headers(MAX_HEADER_FIELDS);
    builder
        .http2()
        // The connection ends if a head's CONTINUATION frames alone exceed this.
        .max_header_list_size(MAX_HEAD_BYTES as u32)
        .max_concurrent_streams(MAX_STREAMS)
        .max_pending_accept_reset_streams(MAX_PENDING_RESETS)
        .max_local_error_reset_streams(MAX_OWN_RESETS)
        .initial_stream_window_size(BODY_WINDOW)
        .initial_connection_window_size(BODY_WINDOW)
        .max_send_buf_size(MAX_SEND_BUFFER);
    builder
}
