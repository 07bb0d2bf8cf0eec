//! How HTTP is spoken: what a client may send, and what is kept for it.

use hyper_util::server::conn::auto::Builder;

use super::streams::StreamExecutor;

/// The largest head of a request, in bytes and in fields.
const MAX_HEAD_BYTES: usize = 64 * 1024;
pub(super) const MAX_HEADER_FIELDS: usize = 256;

/// Requests in progress at once on one HTTP/2 connection.
const MAX_STREAMS: u32 = 32;

/// Streams that the client has reset before we have looked at them, and that we have reset for
/// its faults: with one more the connection ends (CVE-2023-44487, CVE-2025-8671).
const MAX_PENDING_RESETS: usize = 20;
const MAX_OWN_RESETS: usize = 128;

/// How many bytes of request bodies a client may send before they are read.
const BODY_WINDOW: u32 = 64 * 1024;

/// How many bytes of a response the library takes for one HTTP/2 stream beyond what is written.
const MAX_SEND_BUFFER: usize = 64 * 1024;

/// HTTP/1.1, and HTTP/2 by prior knowledge or ALPN, on one connection.
pub(super) fn http(executor: StreamExecutor) -> Builder<StreamExecutor> {
    let mut builder = Builder::new(executor);
    // Our own watchdog measures heads and idleness, on both protocols.
    builder.http1().header_read_timeout(None).max_buf_size(MAX_HEAD_BYTES);
    // No `pipeline_flush`: with it the refusal of a broken head, whose bytes stay unread, is never
    // sent.
    builder.http1().max_headers(MAX_HEADER_FIELDS);
    builder
        .http2()
        // A head in so many CONTINUATION frames that they alone exceed this ends the connection.
        .max_header_list_size(MAX_HEAD_BYTES as u32)
        .max_concurrent_streams(MAX_STREAMS)
        .max_pending_accept_reset_streams(MAX_PENDING_RESETS)
        .max_local_error_reset_streams(MAX_OWN_RESETS)
        .initial_stream_window_size(BODY_WINDOW)
        .initial_connection_window_size(BODY_WINDOW)
        .max_send_buf_size(MAX_SEND_BUFFER);
    builder
}
