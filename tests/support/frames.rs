//! HTTP/2 by hand (RFC 9113), for requests that a well-behaved client cannot send.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

const READ_TIMEOUT: Duration = Duration::from_secs(30);

pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const RST_STREAM: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const PING: u8 = 6;
pub(crate) const GOAWAY: u8 = 7;
pub(crate) const WINDOW_UPDATE: u8 = 8;
pub(crate) const CONTINUATION: u8 = 9;

/// The default maximum size of a frame.
const MAX_FRAME_BYTES: usize = 16 * 1024;

pub(crate) const END_STREAM: u8 = 1;
pub(crate) const ACK: u8 = 1;
pub(crate) const END_HEADERS: u8 = 4;

/// The header block of `GET /` for the host `t`: all but the host are in the static table.
pub(crate) const GET: &[u8] = &[0x82, 0x86, 0x84, 0x01, 0x01, b't'];

/// The header block of a request without a key for `path` of the host `t`.
pub(crate) fn request(method: &str, path: &str) -> Vec<u8> {
    // Literals without indexing: the static table's names :method, :path and :authority.
    let literal = |name: u8, value: &str| {
        let length = u8::try_from(value.len()).unwrap();
        assert!(length < 127, "fits one byte");
        [&[name, length], value.as_bytes()].concat()
    };
    [&[0x86][..], &literal(2, method), &literal(4, path), &literal(1, "t")].concat()
}

/// The frames that open a stream with `GET path` and these header fields.
pub(crate) fn open_with_fields(stream: u32, path: &str, fields: &[(&str, &str)]) -> Vec<u8> {
    open_block(stream, request("GET", path), fields)
}

/// As [`open_with_fields`], for this `:authority` or without one.
pub(crate) fn open_to(
    stream: u32,
    authority: Option<&str>,
    path: &str,
    fields: &[(&str, &str)],
) -> Vec<u8> {
    let mut block = request("GET", path);
    // The last field is `:authority`, of three bytes.
    block.truncate(block.len() - 3);
    if let Some(authority) = authority {
        block.extend([&[1, u8::try_from(authority.len()).unwrap()], authority.as_bytes()].concat());
    }
    open_block(stream, block, fields)
}

fn open_block(stream: u32, mut block: Vec<u8>, fields: &[(&str, &str)]) -> Vec<u8> {
    // A length of 127 and more: seven bits at a time, the lowest first (RFC 7541, section 5.1).
    let text = |text: &str| {
        let (mut bytes, mut rest) = (vec![text.len().min(127) as u8], text.len());
        if rest >= 127 {
            rest -= 127;
            while rest >= 128 {
                bytes.push((rest % 128) as u8 | 128);
                rest /= 128;
            }
            bytes.push(rest as u8);
        }
        [bytes.as_slice(), text.as_bytes()].concat()
    };
    for (name, value) in fields {
        block.extend([&[0][..], &text(name), &text(value)].concat());
    }
    let (first, rest) = block.split_at(block.len().min(MAX_FRAME_BYTES));
    let flags = if rest.is_empty() { END_HEADERS | END_STREAM } else { END_STREAM };
    let mut frames = frame(HEADERS, flags, stream, first);
    let count = rest.chunks(MAX_FRAME_BYTES).len();
    for (index, piece) in rest.chunks(MAX_FRAME_BYTES).enumerate() {
        let flags = if index + 1 == count { END_HEADERS } else { 0 };
        frames.extend(frame(CONTINUATION, flags, stream, piece));
    }
    frames
}

/// The frame that opens a stream with a request without a body.
pub(crate) fn open(stream: u32, method: &str, path: &str) -> Vec<u8> {
    frame(HEADERS, END_HEADERS | END_STREAM, stream, &request(method, path))
}

/// The frames that end a stream with these trailers.
pub(crate) fn trailers(stream: u32, fields: &[(&str, &str)]) -> Vec<u8> {
    open_block(stream, Vec::new(), fields)
}

/// SETTINGS_INITIAL_WINDOW_SIZE = 0: no byte of a body may be sent until the client allows it.
pub(crate) const NO_WINDOW: &[u8] = &[0, 4, 0, 0, 0, 0];

/// One frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) stream: u32,
    pub(crate) payload: Vec<u8>,
}

/// Encodes a frame.
pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let head = [&length[1..], &[kind, flags], &stream.to_be_bytes()].concat();
    [&head, payload].concat()
}

/// A connection on which these settings have been sent.
pub(crate) async fn connect(address: &str, settings: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let hello = [PREFACE, &frame(SETTINGS, 0, 0, settings)].concat();
    stream.write_all(&hello).await.unwrap();
    stream
}

/// Reads the next frame; `None` once the other side has closed or reset the connection.
pub(crate) async fn next(stream: &mut (impl AsyncReadExt + Unpin)) -> Option<Frame> {
    let read = async {
        let mut head = [0; 9];
        stream.read_exact(&mut head).await.ok()?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let mut payload = vec![0; length as usize];
        stream.read_exact(&mut payload).await.ok()?;
        let number = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
        Some(Frame { kind: head[3], flags: head[4], stream: number, payload })
    };
    timeout(READ_TIMEOUT, read).await.expect("a frame, or the end")
}

/// Reads all frames up to the end.
pub(crate) async fn until_closed(stream: &mut (impl AsyncReadExt + Unpin)) -> Vec<Frame> {
    let mut frames = Vec::new();
    while let Some(frame) = next(stream).await {
        frames.push(frame);
    }
    frames
}

/// Reads the next frame and answers pings, which the server sends at its shutdown.
pub(crate) async fn next_answering_pings(stream: &mut TcpStream) -> Option<Frame> {
    let frame = next(stream).await?;
    if (frame.kind, frame.flags) == (PING, 0) {
        // Ignored: the other side may have closed already.
        drop(stream.write_all(&self::frame(PING, ACK, 0, &frame.payload)).await);
    }
    Some(frame)
}

/// Reads all frames up to the end and answers pings.
pub(crate) async fn read_answering_pings(stream: &mut TcpStream) -> Vec<Frame> {
    let mut frames = Vec::new();
    while let Some(frame) = next_answering_pings(stream).await {
        frames.push(frame);
    }
    frames
}

/// The error code of the last GOAWAY; `None` if there was none.
pub(crate) fn goaway_code(frames: &[Frame]) -> Option<u32> {
    let last = frames.iter().rfind(|frame| frame.kind == GOAWAY)?;
    Some(u32::from_be_bytes(last.payload[4..8].try_into().unwrap()))
}
