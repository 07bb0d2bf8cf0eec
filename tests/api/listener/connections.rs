//! Connections that are silent, drip, idle, or are too many.

use std::time::Duration;

use gene_registry::config::Config;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};

use super::{TIMEOUT, replica};
use crate::support::raw::{address, head, parse, response};
use crate::support::replica::{Replica, Response};

// Long enough for a slow machine to read a request that was sent in one piece.
const HEAD_TIMEOUT: Duration = Duration::from_secs(2);
const IDLE_TIMEOUT: Duration = Duration::from_secs(4);

/// Between two bytes of a dripping client.
const DRIP_INTERVAL: Duration = Duration::from_millis(20);

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const SETTINGS: &[u8] = &[0, 0, 0, 4, 0, 0, 0, 0, 0];
const PING: &[u8] = &[0, 0, 8, 6, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8];
/// GET / on stream 1.
const REQUEST: &[u8] = &[0, 0, 6, 1, 5, 0, 0, 0, 1, 0x82, 0x86, 0x84, 0x01, 0x01, b't'];

fn short_timeouts(config: &mut Config) {
    config.server.head_timeout_ms = HEAD_TIMEOUT.as_millis() as u64;
    config.server.idle_timeout_ms = IDLE_TIMEOUT.as_millis() as u64;
}

/// What a client sends: `first` at once, then `then` repeatedly until the end.
struct ClientScript {
    what: &'static str,
    first: Vec<u8>,
    then: &'static [u8],
    /// The minimum time for which the connection stays open.
    at_least: Duration,
}

fn scripts() -> Vec<ClientScript> {
    let request = b"GET /docs HTTP/1.1\r\nHost: t\r\n\r\n".to_vec();
    let http2 = |rest: &[&[u8]]| [&[PREFACE, SETTINGS], rest].concat().concat();
    let script = |what, first, then, at_least| ClientScript { what, first, then, at_least };
    vec![
        script("silent", vec![], b"", HEAD_TIMEOUT),
        script("half a head", request[..20].to_vec(), b"", HEAD_TIMEOUT),
        script("a dripping head", b"GET /docs HTTP/1.1\r\nX: ".to_vec(), b"x", HEAD_TIMEOUT),
        script("dripping line ends", vec![], b"\r\n", HEAD_TIMEOUT),
        script("idle", request.clone(), b"", IDLE_TIMEOUT),
        script("idle, then dripping", request, b"G", HEAD_TIMEOUT),
        script("half a preface", PREFACE[..10].to_vec(), b"", HEAD_TIMEOUT),
        script("http/2, no settings", PREFACE.to_vec(), b"", HEAD_TIMEOUT),
        script("http/2, no request", http2(&[]), b"", HEAD_TIMEOUT),
        script("http/2, pings alone", http2(&[]), PING, HEAD_TIMEOUT),
        script("http/2, half a request", http2(&[&REQUEST[..12]]), b"", HEAD_TIMEOUT),
        script("http/2, idle", http2(&[REQUEST]), b"", IDLE_TIMEOUT),
        script("http/2, idle with pings", http2(&[REQUEST]), PING, IDLE_TIMEOUT),
    ]
}

/// Follows a script until the other side closes; returns how long that took.
async fn lifetime(address: &str, script: &ClientScript) -> Duration {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let begun = Instant::now();
    let mut buffer = vec![0; 64 * 1024];
    // Ignored from here on: the other side may have closed already.
    drop(stream.write_all(&script.first).await);
    loop {
        match timeout(DRIP_INTERVAL, stream.read(&mut buffer)).await {
            Ok(Ok(0) | Err(_)) => return begun.elapsed(),
            Ok(Ok(_)) => {}
            Err(_) => drop(stream.write_all(script.then).await),
        }
        assert!(begun.elapsed() < TIMEOUT, "{}: still open", script.what);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn silent_dripping_and_idle_connections_are_closed_while_others_are_served() {
    let (replica, key) = replica(short_timeouts).await;
    let address = address(&replica.base);
    let scripts = scripts();
    let lifetimes = scripts.iter().map(|script| lifetime(&address, script));
    let lifetimes = futures_util::future::join_all(lifetimes);
    tokio::pin!(lifetimes);
    let mut served = 0;
    let lifetimes = loop {
        tokio::select! {
            lifetimes = &mut lifetimes => break lifetimes,
            response = replica.get("/genes", Some(&key)) => {
                assert_eq!(response.status, 200);
                served += 1;
            }
        }
    };
    assert!(served > 10, "{served}");
    for (script, lifetime) in scripts.iter().zip(lifetimes) {
        // The server's clock began a little earlier or later than this one.
        let margin = Duration::from_millis(50);
        assert!(lifetime + margin >= script.at_least, "{}: {lifetime:?}", script.what);
    }
}

/// A kept-alive connection on which a request was served.
async fn served_connection(replica: &Replica) -> TcpStream {
    let mut stream = TcpStream::connect(address(&replica.base)).await.unwrap();
    let response = send_head(&mut stream, "/").await;
    assert_eq!(response.status, 200);
    stream
}

/// Sends a HEAD request and reads the response, on a connection that stays open.
async fn send_head(stream: &mut TcpStream, target: &str) -> Response {
    let request = format!("HEAD {target} HTTP/1.1\r\nHost: t\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut bytes = Vec::new();
    while !bytes.ends_with(b"\r\n\r\n") {
        let length =
            timeout(TIMEOUT, stream.read_buf(&mut bytes)).await.expect("a response").unwrap();
        assert_ne!(length, 0, "closed: {}", String::from_utf8_lossy(&bytes));
    }
    parse(&bytes)
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_beyond_the_bound_wait_and_are_served_later() {
    let (replica, key) = replica(|config| {
        config.server.max_connections = 2;
        config.server.trusted_proxies = vec!["127.0.0.1".parse().unwrap()];
    })
    .await;
    let (one, mut other) = (served_connection(&replica).await, served_connection(&replica).await);

    let mut waiting = TcpStream::connect(address(&replica.base)).await.unwrap();
    waiting.write_all(&head("GET", "/v1/genes", &[("X-API-Key", &key)])).await.unwrap();
    let early = timeout(Duration::from_millis(300), waiting.readable()).await;
    assert!(early.is_err(), "no response while the others are open");
    assert_eq!(send_head(&mut other, "/").await.status, 200, "open connections are still served");

    drop(one);
    assert_eq!(response(&mut waiting).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_slower_than_the_connection_timeouts_is_served() {
    let (upstream, key) = super::ControlledUpstream::new();
    let replica = super::replica_over(std::sync::Arc::clone(&upstream), short_timeouts).await;
    upstream.hold();
    let asked = replica.get("/arena/insights?domain=search", Some(&key));
    tokio::pin!(asked);
    let early = timeout(IDLE_TIMEOUT * 2, &mut asked).await;
    assert!(early.is_err(), "the response is held back");
    upstream.release();
    assert_eq!(asked.await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn pipelined_requests_are_served_in_order() {
    let (replica, key) = replica(|_| {}).await;
    let mut stream = TcpStream::connect(address(&replica.base)).await.unwrap();
    let mut requests = Vec::new();
    for id in ["a", "b", "c"] {
        requests.extend(
            format!(
                "GET /v1/none HTTP/1.1\r\nHost: t\r\nX-API-Key: {key}\r\nX-Request-Id: {id}\r\n\r\n"
            )
            .into_bytes(),
        );
    }
    requests.extend(head("GET", "/", &[("X-Request-Id", "d")]));
    stream.write_all(&requests).await.unwrap();
    let bytes = crate::support::raw::until_closed(&mut stream).await;
    let text = String::from_utf8(bytes).unwrap();
    let ids: Vec<_> = text.lines().filter_map(|line| line.strip_prefix("x-request-id: ")).collect();
    assert_eq!(ids, ["a", "b", "c", "d"]);
}
