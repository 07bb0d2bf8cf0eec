//! Clients without a key can make the server hold only little memory, whatever they request and
//! however long they do not read it.

use std::time::Duration;

use futures_util::future::join_all;
use gene_registry::keys::ApiKey;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;

use super::TIMEOUT;
use crate::support::binary::ReplicaProcess;
use crate::support::frames::{
    END_HEADERS, END_STREAM, HEADERS, NO_WINDOW, PING, PREFACE, RST_STREAM, SETTINGS, connect,
    frame, next, open, open_with_fields, request, trailers,
};
use crate::support::postgres::PostgresServer;
use crate::support::raw::address;
use crate::support::replica::{READER, sample};

const CONNECTIONS: usize = 260;
const REQUESTS: u32 = 128;

const MAX_GROWTH: u64 = 64 << 20;

/// A connection counts as blocked if it accepts no more of a flood for this long.
const BLOCKED_AFTER: Duration = Duration::from_secs(1);

/// The program as a process of its own, and a key.
async fn start() -> (ReplicaProcess, String) {
    let database = sample(PostgresServer::shared().await).await;
    let key = database.new_key(1_000_000).await;
    let start = ReplicaProcess::start(&[
        ("DATABASE_URL", &database.url_as(READER)),
        ("GENE_REGISTRY__LOG__LEVEL", "warn"),
    ])
    .await;
    assert_eq!(start.replica.get("/genes", Some(&key)).await.status, 200);
    (start, key)
}

/// Sends many requests for `path` whose bodies may not be sent (window 0), and waits until each has
/// its headers or is reset.
async fn open_pinned(address: &str, path: &str) -> TcpStream {
    let mut stream = connect(address, NO_WINDOW).await;
    let requests: Vec<u8> = (0..REQUESTS).flat_map(|n| open(2 * n + 1, "GET", path)).collect();
    stream.write_all(&requests).await.unwrap();
    let mut answered = 0;
    while answered < REQUESTS {
        let frame = next(&mut stream).await.expect("not closed");
        let is_answer = frame.kind == HEADERS || frame.kind == RST_STREAM;
        answered += u32::from(is_answer && frame.stream > 0);
    }
    stream
}

#[tokio::test(flavor = "multi_thread")]
async fn unread_responses_hold_little_memory() {
    let (start, key) = start().await;
    let address = address(&start.replica.base);
    let before = start.memory();
    let mut grown = Vec::new();
    for path in ["/", "/v1/openapi.json", "/docs/swagger-ui-bundle.js", "/v1/genes", "/v1/none"] {
        let pinned = join_all((0..CONNECTIONS).map(|_| open_pinned(&address, path)));
        let pinned = timeout(3 * TIMEOUT, pinned).await.expect("all are answered or refused");
        grown.push((path, start.memory().saturating_sub(before) >> 20));
        let other = timeout(TIMEOUT, start.replica.get("/genes", Some(&key)));
        assert_eq!(other.await.expect("others are served").status, 200);
        drop(pinned);
    }
    assert!(grown.iter().all(|(_, megabytes)| megabytes << 20 < MAX_GROWTH), "MB: {grown:?}");
    println!("grown, MB: {grown:?}");
}

/// Sends requests with large heads and made-up keys of the right format, whose lookups may wait, and
/// reads the responses.
async fn send_large_heads(address: &str) {
    const STREAMS: u32 = 32;
    let padding = "x".repeat(60_000);
    let mut stream = connect(address, &[]).await;
    let mut requests = Vec::new();
    for n in 0..STREAMS {
        let key = ApiKey::generate().unwrap();
        let fields = [("x-api-key", key.expose()), ("x-padding", padding.as_str())];
        requests.extend(open_with_fields(2 * n + 1, "/v1/genes", &fields));
    }
    stream.write_all(&requests).await.unwrap();
    let mut responses = 0;
    while responses < STREAMS {
        let frame = next(&mut stream).await.expect("not closed");
        responses += u32::from(frame.kind == HEADERS);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn large_request_heads_that_wait_hold_little_memory() {
    let (start, key) = start().await;
    let address = address(&start.replica.base);
    let before = start.memory();
    let sent = join_all((0..100).map(|_| send_large_heads(&address)));
    timeout(3 * TIMEOUT, sent).await.expect("all are answered");
    let growth = start.memory().saturating_sub(before);
    assert!(growth < MAX_GROWTH, "{} MB", growth >> 20);
    let other = timeout(TIMEOUT, start.replica.get("/genes", Some(&key)));
    assert_eq!(other.await.expect("others are served").status, 200);
}

/// Opens streams whose responses may not be sent (window 0), and then sends trailers on each, which
/// take thirty times as much memory as on the wire.
async fn send_trailers(address: &str) -> TcpStream {
    const STREAMS: u32 = 32;
    let names: Vec<String> = (0..1_800).map(|n| format!("x{n:03x}")).collect();
    let fields: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "")).collect();
    let mut stream = connect(address, NO_WINDOW).await;
    let open = |n| frame(HEADERS, END_HEADERS, 2 * n + 1, &request("POST", "/"));
    stream.write_all(&(0..STREAMS).flat_map(open).collect::<Vec<_>>()).await.unwrap();
    let mut heads = 0;
    while heads < STREAMS {
        let frame = next(&mut stream).await.expect("not closed");
        heads += u32::from(frame.kind == HEADERS);
    }
    for n in 0..STREAMS {
        stream.write_all(&trailers(2 * n + 1, &fields)).await.unwrap();
    }
    stream.write_all(&frame(PING, 0, 0, &[0; 8])).await.unwrap();
    while next(&mut stream).await.expect("not closed").kind != PING {}
    stream
}

#[tokio::test(flavor = "multi_thread")]
async fn request_trailers_hold_little_memory() {
    let (start, key) = start().await;
    let address = address(&start.replica.base);
    let before = start.memory();
    let sent = join_all((0..20).map(|_| send_trailers(&address)));
    let pinned = timeout(3 * TIMEOUT, sent).await.expect("all are received");
    let growth = start.memory().saturating_sub(before);
    assert!(growth < MAX_GROWTH, "{} MB", growth >> 20);
    let other = timeout(TIMEOUT, start.replica.get("/genes", Some(&key)));
    assert_eq!(other.await.expect("others are served").status, 200);
    drop(pinned);
}

/// Sends `flood` repeatedly and reads nothing, until the connection accepts no more of it.
async fn flood(address: &str, hello: &[u8], flood: impl Fn(u32) -> Vec<u8>) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4 * 1024).unwrap();
    let mut stream = socket.connect(address.parse().unwrap()).await.unwrap();
    stream.write_all(hello).await.unwrap();
    for round in 0..2_000 {
        // A closed connection counts as blocked.
        if !matches!(timeout(BLOCKED_AFTER, stream.write_all(&flood(round))).await, Ok(Ok(()))) {
            break;
        }
    }
    stream
}

#[tokio::test(flavor = "multi_thread")]
async fn unread_response_heads_hold_little_memory() {
    const STREAMS_AT_ONCE: u32 = 1_000;
    let (start, key) = start().await;
    let address = address(&start.replica.base);
    let before = start.memory();
    let http1 = b"HEAD / HTTP/1.1\r\nHost: t\r\n\r\n".repeat(STREAMS_AT_ONCE as usize);
    let http2 = |round: u32| -> Vec<u8> {
        let head = request("HEAD", "/");
        let streams = round * STREAMS_AT_ONCE..(round + 1) * STREAMS_AT_ONCE;
        let opened = |n| frame(HEADERS, END_HEADERS | END_STREAM, 2 * n + 1, &head);
        streams.flat_map(opened).collect()
    };
    let hello = [PREFACE, &frame(SETTINGS, 0, 0, &[])].concat();

    let over_http1 = join_all((0..20).map(|_| flood(&address, b"", |_| http1.clone())));
    let pinned = timeout(3 * TIMEOUT, over_http1).await.expect("the floods end");
    let by_http1 = start.memory().saturating_sub(before) >> 20;
    drop(pinned);
    let over_http2 = join_all((0..20).map(|_| flood(&address, &hello, http2)));
    let pinned = timeout(3 * TIMEOUT, over_http2).await.expect("the floods end");
    let by_http2 = start.memory().saturating_sub(before) >> 20;

    let grown = [("HTTP/1.1", by_http1), ("HTTP/2", by_http2)];
    assert!(grown.iter().all(|(_, megabytes)| megabytes << 20 < MAX_GROWTH), "MB: {grown:?}");
    println!("grown, MB: {grown:?}");
    let other = timeout(TIMEOUT, start.replica.get("/genes", Some(&key)));
    assert_eq!(other.await.expect("others are served").status, 200);
    drop(pinned);
}
