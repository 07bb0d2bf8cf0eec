//! Shutdown: first readiness ends, then new connections are refused, then requests in progress
//! finish.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::{ControlledUpstream, TIMEOUT, replica_over};
use crate::support::frames::{
    self, DATA, END_HEADERS, END_STREAM, GET, GOAWAY, HEADERS, SETTINGS, WINDOW_UPDATE, connect,
    frame, goaway_code, next_answering_pings,
};
use crate::support::raw::{address, parse, until_closed};
use crate::support::wait::eventually;

const PATH: &str = "/arena/insights?domain=search";

/// A connection on which a request has been sent; it may be kept alive.
async fn request(address: &str, target: &str, key: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!("GET {target} HTTP/1.1\r\nHost: t\r\nX-API-Key: {key}\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    stream
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_in_progress_finish_and_new_connections_are_refused() {
    let (upstream, key) = ControlledUpstream::new();
    upstream.hold();
    let replica =
        replica_over(Arc::clone(&upstream), |config| config.server.grace_ms = 60_000).await;
    let (address, ops) = (address(&replica.base), replica.ops.clone());
    let url = format!("{}/arena/insights?domain=code.review", replica.base);
    let mut under_way = request(&address, &format!("/v1{PATH}"), &key).await;
    upstream.started().await;
    let http2 = reqwest::Client::builder().http2_prior_knowledge().build().unwrap();
    let http2 = tokio::spawn(http2.get(url).header("X-API-Key", &key).send());
    upstream.started().await;
    let mut idle = request(&address, "/", &key).await;
    timeout(TIMEOUT, idle.readable()).await.expect("a response").unwrap();

    let shutdown = tokio::spawn(replica.shutdown());

    eventually(TIMEOUT, "new connections are refused", || async {
        TcpStream::connect(&address).await.is_err()
    })
    .await;
    let answered = until_closed(&mut idle).await;
    assert_eq!(parse(&answered).status, 200, "the idle connection is closed after its response");
    let ready = reqwest::get(format!("{ops}/readyz")).await.unwrap();
    assert_eq!(ready.status(), 503);
    assert!(ready.text().await.unwrap().contains("draining"));
    assert_eq!(reqwest::get(format!("{ops}/livez")).await.unwrap().status(), 200);
    assert!(!shutdown.is_finished(), "the shutdown waits for requests in progress");

    upstream.release();
    let response = parse(&until_closed(&mut under_way).await);
    assert_eq!((response.status.as_u16(), response.header("connection")), (200, "close"));
    assert_eq!(response.json()["domain"], "search", "complete");
    let status = http2.await.unwrap().unwrap().status();
    assert!([200, 404].contains(&status.as_u16()), "HTTP/2 too: {status}");
    timeout(TIMEOUT, shutdown).await.expect("the server ends").unwrap();
    assert!(
        reqwest::get(format!("{ops}/livez")).await.is_err(),
        "the operations listener ends last"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_beyond_the_grace_time_are_cut_off() {
    let (upstream, key) = ControlledUpstream::new();
    upstream.hold();
    let replica = replica_over(Arc::clone(&upstream), |config| config.server.grace_ms = 200).await;
    let mut under_way = request(&address(&replica.base), &format!("/v1{PATH}"), &key).await;
    upstream.started().await;

    timeout(TIMEOUT, replica.shutdown()).await.expect("the server ends");

    assert_eq!(until_closed(&mut under_way).await, b"");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_draining_replica_is_not_ready_but_serves() {
    let (upstream, key) = ControlledUpstream::new();
    let drain = |config: &mut gene_registry::config::Config| config.server.drain_ms = 60_000;
    let replica = replica_over(upstream, drain).await;
    let (base, ops) = (replica.base.clone(), replica.ops.clone());
    eventually(TIMEOUT, "the replica is ready", || async {
        replica.ops("/readyz").await.status == 200
    })
    .await;

    let shutdown = tokio::spawn(replica.shutdown());

    eventually(TIMEOUT, "the replica drains", || async {
        reqwest::get(format!("{ops}/readyz")).await.unwrap().status() == 503
    })
    .await;
    let request = reqwest::Client::new().get(format!("{base}/genes")).header("X-API-Key", key);
    assert_eq!(request.send().await.unwrap().status(), 200);
    shutdown.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_draining_replica_closes_each_connection_after_its_response() {
    let (upstream, key) = ControlledUpstream::new();
    let drain = |config: &mut gene_registry::config::Config| config.server.drain_ms = 60_000;
    let replica = replica_over(upstream, drain).await;
    let (address, ops) = (address(&replica.base), replica.ops.clone());
    let mut kept = TcpStream::connect(&address).await.unwrap();
    let request_head = format!("HEAD /v1/genes HTTP/1.1\r\nHost: t\r\nX-API-Key: {key}\r\n\r\n");
    kept.write_all(b"HEAD / HTTP/1.1\r\nHost: t\r\n\r\n").await.unwrap();
    let mut first = Vec::new();
    while !first.ends_with(b"\r\n\r\n") {
        timeout(TIMEOUT, kept.read_buf(&mut first)).await.expect("a response").unwrap();
    }
    assert_eq!(parse(&first).header("connection"), "", "before that the connection is kept alive");
    let mut http2 = connect(&address, &[]).await;

    let shutdown = tokio::spawn(replica.shutdown());
    eventually(TIMEOUT, "the replica drains", || async {
        reqwest::get(format!("{ops}/readyz")).await.unwrap().status() == 503
    })
    .await;

    // New connections too: balancers need a moment to choose another replica.
    for mut stream in [kept, TcpStream::connect(&address).await.unwrap()] {
        stream.write_all(request_head.as_bytes()).await.unwrap();
        let response = parse(&until_closed(&mut stream).await);
        assert_eq!((response.status.as_u16(), response.header("connection")), (405, "close"));
    }
    http2.write_all(&frame(HEADERS, END_HEADERS | END_STREAM, 1, GET)).await.unwrap();
    let frames = frames::read_answering_pings(&mut http2).await;
    assert!(frames.iter().any(|frame| frame.kind == DATA && frame.flags & END_STREAM != 0));
    assert_eq!(goaway_code(&frames), Some(0), "{frames:?}");
    assert!(!shutdown.is_finished(), "the replica still drains");
    shutdown.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn shutdown_sends_goaway_and_http2_streams_finish() {
    let (upstream, key) = ControlledUpstream::new();
    upstream.hold();
    let replica =
        replica_over(Arc::clone(&upstream), |config| config.server.grace_ms = 60_000).await;
    let address = address(&replica.base);
    let mut idle = connect(&address, &[]).await;
    idle.write_all(&frame(HEADERS, END_HEADERS | END_STREAM, 1, GET)).await.unwrap();
    while next_answering_pings(&mut idle).await.expect("a response").stream != 1 {}
    let mut busy = connect(&address, &[]).await;
    let target = format!("/v1{PATH}");
    // Literals without indexing: the static table's name :path (4), and the name of the key's
    // header.
    let path = [&[0x04, u8::try_from(target.len()).unwrap()], target.as_bytes()].concat();
    let name = [&[0x00, 9], &b"x-api-key"[..], &[u8::try_from(key.len()).unwrap()]].concat();
    let head = [&[0x82, 0x86], &path[..], &[0x01, 1, b't'], &name, key.as_bytes()].concat();
    busy.write_all(&frame(HEADERS, END_HEADERS | END_STREAM, 1, &head)).await.unwrap();
    upstream.started().await;

    let shutdown = tokio::spawn(replica.shutdown());

    let told = frames::read_answering_pings(&mut idle).await;
    assert_eq!(goaway_code(&told), Some(0), "the idle connection is closed: {told:?}");
    let first = async {
        loop {
            let frame = next_answering_pings(&mut busy).await.expect("not closed yet");
            if frame.kind == GOAWAY {
                return frame;
            }
        }
    };
    assert_eq!(goaway_code(&[timeout(TIMEOUT, first).await.expect("a GOAWAY")]), Some(0));
    assert!(!shutdown.is_finished(), "the shutdown waits for requests in progress");
    upstream.release();
    let rest = frames::read_answering_pings(&mut busy).await;
    let body: Vec<_> = rest.iter().filter(|frame| frame.kind == DATA).collect();
    assert!(body.iter().any(|frame| frame.flags & END_STREAM != 0), "complete: {rest:?}");
    assert!(String::from_utf8_lossy(&body[0].payload).contains("\"search\""));
    timeout(TIMEOUT, shutdown).await.expect("the server ends").unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_connection_does_not_delay_the_shutdown() {
    let (upstream, _) = ControlledUpstream::new();
    let replica = replica_over(upstream, |config| config.server.grace_ms = 60_000).await;
    let address = address(&replica.base);
    let mut silent = TcpStream::connect(&address).await.unwrap();
    let mut half = TcpStream::connect(&address).await.unwrap();
    half.write_all(b"GET / HTTP/1.1\r\nHo").await.unwrap();
    let mut preface = TcpStream::connect(&address).await.unwrap();
    preface.write_all(b"PRI * HTTP/2.0\r\n").await.unwrap();
    assert_eq!(
        replica.get("/openapi.json", None).await.status,
        200,
        "the connections have been accepted"
    );

    let ended = timeout(Duration::from_secs(5), replica.shutdown()).await;
    assert!(ended.is_ok(), "the server ends at once");
    for stream in [&mut silent, &mut half, &mut preface] {
        until_closed(stream).await;
    }
}

/// Frames up to the end of the response on stream 1; pings stay unanswered.
async fn read_response(stream: &mut TcpStream) -> String {
    let mut body = Vec::new();
    loop {
        let frame = frames::next(stream).await.expect("the rest of the response");
        if (frame.kind, frame.stream) == (DATA, 1) {
            body.extend(&frame.payload);
        }
        if frame.stream == 1 && frame.flags & END_STREAM != 0 && frame.kind != SETTINGS {
            return String::from_utf8(body).unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_http2_peer_that_ignores_pings_does_not_delay_the_shutdown() {
    let (upstream, _) = ControlledUpstream::new();
    let replica = replica_over(upstream, |config| config.server.grace_ms = 60_000).await;
    let address = address(&replica.base);
    let mut quiet = connect(&address, &[]).await;
    quiet.write_all(&frame(HEADERS, END_HEADERS | END_STREAM, 1, GET)).await.unwrap();
    assert!(read_response(&mut quiet).await.trim_end().ends_with("</html>"));
    let ended = timeout(Duration::from_secs(10), replica.shutdown()).await;
    assert!(ended.is_ok(), "the server ends long before the grace time does");
    frames::until_closed(&mut quiet).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_http2_response_that_waits_for_its_window_survives_the_shutdown() {
    let (upstream, _) = ControlledUpstream::new();
    let replica = replica_over(upstream, |config| config.server.grace_ms = 60_000).await;
    let address = address(&replica.base);
    // SETTINGS_INITIAL_WINDOW_SIZE 0: nothing may be sent until it is requested.
    let mut slow = connect(&address, &[0, 4, 0, 0, 0, 0]).await;
    slow.write_all(&frame(HEADERS, END_HEADERS | END_STREAM, 1, GET)).await.unwrap();
    while frames::next(&mut slow).await.expect("a head").kind != HEADERS {}

    let mut shutdown = tokio::spawn(replica.shutdown());
    let waited = timeout(Duration::from_secs(4), &mut shutdown).await;
    assert!(waited.is_err(), "the shutdown waits for the response that is being sent");

    let open = 1_u32 << 20;
    slow.write_all(&frame(WINDOW_UPDATE, 0, 1, &open.to_be_bytes())).await.unwrap();
    assert!(read_response(&mut slow).await.trim_end().ends_with("</html>"), "complete");
    timeout(Duration::from_secs(10), shutdown).await.expect("the server ends").unwrap();
}
