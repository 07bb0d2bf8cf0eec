//! Clients that read a response slowly: too slow a read ends the connection, whatever else happens
//! on it; a slow but steady one does not.

use std::time::Duration;

use gene_registry::config::Config;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::OwnedWriteHalf;
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::{Instant, interval, timeout};

use super::{TIMEOUT, replica};
use crate::support::frames::{
    DATA, END_STREAM, Frame, HEADERS, NO_WINDOW, RST_STREAM, WINDOW_UPDATE, connect, frame, next,
    open,
};
use crate::support::raw::{address, head};

/// Responses of 1.7 MB, of a few kilobytes, and of less than 200 bytes.
const LARGE: &str = "/docs/swagger-ui-bundle.js";
const MEDIUM: &str = "/";
const SMALL: &str = "/v1/genes";

const IDLE_TIMEOUT: Duration = Duration::from_secs(1);
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(3);

/// Responses on one HTTP/1.1 connection, each of which takes longer than the idle timeout.
const RESPONSES: usize = 5;

/// Between two writes of a client that stays active.
const INTERVAL: Duration = Duration::from_millis(100);

fn short_timeouts(config: &mut Config) {
    config.server.head_timeout_ms = IDLE_TIMEOUT.as_millis() as u64;
    config.server.idle_timeout_ms = IDLE_TIMEOUT.as_millis() as u64;
    config.server.response_timeout_ms = RESPONSE_TIMEOUT.as_millis() as u64;
}

/// WINDOW_UPDATE frames that allow `bytes` more of a stream.
fn window(stream: u32, bytes: u32) -> Vec<u8> {
    let increment = bytes.to_be_bytes();
    [frame(WINDOW_UPDATE, 0, 0, &increment), frame(WINDOW_UPDATE, 0, stream, &increment)].concat()
}

/// Sends `beat` with the next unused stream number repeatedly, until the future is dropped.
fn keep_alive(
    mut writer: OwnedWriteHalf,
    beat: impl Fn(u32) -> Vec<u8> + Send + 'static,
) -> tokio::task::JoinHandle<()> {
    tokio::spawn(async move {
        let (mut ticks, mut stream) = (interval(INTERVAL), 101);
        loop {
            ticks.tick().await;
            if writer.write_all(&beat(stream)).await.is_err() {
                return;
            }
            stream += 2;
        }
    })
}

/// Reads until the server resets one of `streams`, and returns which. Panics if it completes one,
/// or resets none in time.
async fn reset_one(reader: &mut (impl AsyncReadExt + Unpin), streams: &[u32]) -> u32 {
    let reset = async {
        loop {
            let frame = next(reader).await.expect("the connection continues");
            if streams.contains(&frame.stream) {
                assert!(frame.flags & END_STREAM == 0 || frame.kind == RST_STREAM, "{frame:?}");
                if frame.kind == RST_STREAM {
                    return frame.stream;
                }
            }
        }
    };
    timeout(TIMEOUT, reset).await.expect("a stream that makes no progress is reset")
}

/// Opens a stream for each size of response and allows none of the bodies, except for what `beat`
/// allows meanwhile. All streams must be reset while the connection continues.
async fn all_are_reset(beat: impl Fn(u32) -> Vec<u8> + Send + 'static) {
    let (replica, _) = replica(short_timeouts).await;
    let (mut reader, mut writer) = connect(&address(&replica.base), NO_WINDOW).await.into_split();
    let mut waiting = vec![1, 3, 5];
    for (stream, path) in [(1, LARGE), (3, MEDIUM), (5, SMALL)] {
        writer.write_all(&open(stream, "GET", path)).await.unwrap();
    }
    let begun = Instant::now();
    let alive = keep_alive(writer, beat);

    while !waiting.is_empty() {
        let reset = reset_one(&mut reader, &waiting).await;
        waiting.retain(|stream| *stream != reset);
    }

    let margin = Duration::from_millis(50);
    assert!(
        begun.elapsed() + margin >= RESPONSE_TIMEOUT,
        "not before its time: {:?}",
        begun.elapsed()
    );
    loop {
        let frame = next(&mut reader).await.expect("the connection continues");
        if frame.kind == HEADERS && frame.stream > 101 {
            break;
        }
    }
    alive.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_without_a_window_are_reset_whatever_else_their_connection_does() {
    all_are_reset(|stream| open(stream, "HEAD", "/docs")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_that_allow_a_byte_now_and_then_are_reset() {
    all_are_reset(|stream| {
        let bytes = [1, 3, 5].map(|stream| window(stream, 1)).concat();
        [open(stream, "HEAD", "/docs"), bytes].concat()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn slowly_but_steadily_read_http2_streams_complete() {
    let (replica, _) = replica(short_timeouts).await;
    let whole = replica.send(reqwest::Method::GET, &url(&replica.base, LARGE), &[]).await.text;
    let (mut reader, mut writer) = connect(&address(&replica.base), NO_WINDOW).await.into_split();
    writer.write_all(&open(1, "GET", LARGE)).await.unwrap();
    let begun = Instant::now();
    let alive = keep_alive(writer, |_| window(1, 32 * 1024));

    let mut body = Vec::new();
    let read = async {
        loop {
            let Frame { kind, flags, stream, payload } =
                next(&mut reader).await.expect("the response continues");
            assert!(stream == 0 || kind != RST_STREAM, "the stream is not reset");
            if (kind, stream) == (DATA, 1) {
                body.extend(payload);
                if flags & END_STREAM != 0 {
                    return;
                }
            }
        }
    };
    timeout(2 * TIMEOUT, read).await.expect("the connection ends");

    assert!(body == whole.as_bytes(), "{} {}", body.len(), whole.len());
    assert!(
        begun.elapsed() > RESPONSE_TIMEOUT,
        "it took long enough to be cut: {:?}",
        begun.elapsed()
    );
    alive.abort();
}

fn url(base: &str, path: &str) -> String {
    format!("{}{path}", base.trim_end_matches("/v1"))
}

/// A connection with a small receive buffer.
async fn connect_with_small_buffer(address: &str) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4 * 1024).unwrap();
    socket.connect(address.parse().unwrap()).await.unwrap()
}

/// Reads `step` bytes each [`INTERVAL`] until the other side closes; returns all of them.
async fn read_steadily(stream: &mut TcpStream, step: usize) -> Vec<u8> {
    let (mut bytes, mut buffer, mut ticks) = (Vec::new(), vec![0; step], interval(INTERVAL));
    let read = async {
        loop {
            ticks.tick().await;
            let mut filled = 0;
            while filled < step {
                match stream.read(&mut buffer[filled..]).await {
                    Ok(length @ 1..) => filled += length,
                    _ => {
                        bytes.extend_from_slice(&buffer[..filled]);
                        return;
                    }
                }
            }
            bytes.extend_from_slice(&buffer);
        }
    };
    timeout(2 * TIMEOUT, read).await.expect("the connection ends");
    bytes
}

#[tokio::test(flavor = "multi_thread")]
async fn slowly_but_steadily_read_http1_responses_complete() {
    let (replica, _) = replica(short_timeouts).await;
    let whole = replica.send(reqwest::Method::GET, &url(&replica.base, LARGE), &[]).await.text;
    let mut stream = connect_with_small_buffer(&address(&replica.base)).await;
    // More than the system's buffers hold.
    let kept = format!("GET {LARGE} HTTP/1.1\r\nHost: t\r\n\r\n").repeat(RESPONSES - 1);
    stream.write_all(kept.as_bytes()).await.unwrap();
    stream.write_all(&head("GET", LARGE, &[])).await.unwrap();
    let begun = Instant::now();

    let bytes = read_steadily(&mut stream, 64 * 1024).await;

    assert!(bytes.len() > RESPONSES * whole.len(), "{} {}", bytes.len(), whole.len());
    assert!(bytes.ends_with(whole.as_bytes()), "the last response is complete");
    assert!(
        begun.elapsed() > RESPONSE_TIMEOUT,
        "it took long enough to be cut: {:?}",
        begun.elapsed()
    );
}
