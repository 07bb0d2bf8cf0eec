//! Peers that read slowly or not at all, send bodies that no operation reads, are thousands, or
//! just idle.

use std::io::ErrorKind;
use std::time::Duration;

use futures_util::future::join_all;
use gene_registry::config::Config;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};

use super::{TIMEOUT, replica};
use crate::support::frames::{
    DATA, END_HEADERS, END_STREAM, Frame, GET, HEADERS, connect, frame, next, until_closed,
};
use crate::support::raw::address;
use crate::support::{raise_file_limit, record_not_run, test_name};

const HEAD_TIMEOUT: Duration = Duration::from_millis(1_000);
const IDLE_TIMEOUT: Duration = Duration::from_millis(2_000);
const RESPONSE_TIMEOUT: Duration = Duration::from_millis(2_000);

/// Between two bytes of a dripping client.
const DRIP_INTERVAL: Duration = Duration::from_millis(20);

/// The largest response, requested often enough to exceed the system's buffers.
const LARGE: &str = "/docs/swagger-ui-bundle.js";
const REQUESTS: usize = 40;

/// Concurrent connections.
const CROWD: usize = 3_000;

fn short_timeouts(config: &mut Config) {
    config.server.head_timeout_ms = HEAD_TIMEOUT.as_millis() as u64;
    config.server.idle_timeout_ms = IDLE_TIMEOUT.as_millis() as u64;
    config.server.response_timeout_ms = RESPONSE_TIMEOUT.as_millis() as u64;
}

/// Sends bytes until the other side has closed; panics if it does not.
async fn drip_until_closed(stream: &mut TcpStream, drop_of: &[u8]) -> Vec<u8> {
    let begun = Instant::now();
    let (mut bytes, mut buffer) = (Vec::new(), vec![0; 64 * 1024]);
    loop {
        match timeout(DRIP_INTERVAL, stream.read(&mut buffer)).await {
            Ok(Ok(0) | Err(_)) => return bytes,
            Ok(Ok(length)) => bytes.extend_from_slice(&buffer[..length]),
            // Ignored: the other side may have closed meanwhile.
            Err(_) => drop(stream.write_all(drop_of).await),
        }
        assert!(begun.elapsed() < TIMEOUT, "still open");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_reads_nothing_or_single_bytes_is_cut_off() {
    let (replica, key) = replica(|config| {
        short_timeouts(config);
        // A connection with a response that waits to be read is not idle.
        config.server.idle_timeout_ms = 600_000;
        config.server.max_connections = 1;
    })
    .await;
    let address = address(&replica.base);
    for drips in [false, true] {
        let mut greedy = TcpStream::connect(&address).await.unwrap();
        let request = format!("GET {LARGE} HTTP/1.1\r\nHost: t\r\n\r\n").repeat(REQUESTS);
        greedy.write_all(request.as_bytes()).await.unwrap();
        greedy.readable().await.unwrap();

        // Only one connection is allowed, so another response shows that the first one is closed.
        let mut taken = 0;
        let other = timeout(TIMEOUT, replica.get("/genes", Some(&key)));
        tokio::pin!(other);
        let response = loop {
            tokio::select! {
                response = &mut other => break response.expect("the slow connection is cut off"),
                () = sleep(DRIP_INTERVAL), if drips => taken += greedy.read(&mut [0; 1]).await.unwrap_or(0),
            }
        };
        assert_eq!(response.status, 200);
        assert!(!drips || taken > 0);
        // The system keeps nothing for a client that was cut off: it sends no more of it.
        let rest = timeout(TIMEOUT, greedy.read_to_end(&mut Vec::new())).await.expect("an end");
        assert_eq!(rest.expect_err("a reset").kind(), ErrorKind::ConnectionReset);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_http2_peer_without_a_window_is_cut_off() {
    let (replica, _) = replica(short_timeouts).await;
    // SETTINGS_INITIAL_WINDOW_SIZE = 0
    let mut stream = connect(&address(&replica.base), &[0, 4, 0, 0, 0, 0]).await;
    let begun = Instant::now();
    stream.write_all(&frame(HEADERS, END_HEADERS | END_STREAM, 1, GET)).await.unwrap();

    let frames = until_closed(&mut stream).await;

    assert!(frames.iter().any(|frame| frame.kind == HEADERS), "its head was sent");
    assert!(!frames.iter().any(|frame| frame.kind == DATA && !frame.payload.is_empty()));
    assert!(begun.elapsed() + Duration::from_millis(50) >= IDLE_TIMEOUT, "{:?}", begun.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn unused_request_bodies_are_not_waited_for() {
    let (replica, key) = replica(short_timeouts).await;
    for framing in ["Content-Length: 100000", "Transfer-Encoding: chunked"] {
        for path in ["/v1/genes", "/docs", "/v1/none"] {
            let mut stream = TcpStream::connect(address(&replica.base)).await.unwrap();
            let head =
                format!("GET {path} HTTP/1.1\r\nHost: t\r\nX-API-Key: {key}\r\n{framing}\r\n\r\n");
            stream.write_all(head.as_bytes()).await.unwrap();
            let begun = Instant::now();
            let response = drip_until_closed(&mut stream, b"1\r\nx\r\n").await;
            let response = String::from_utf8_lossy(&response);
            let expected = if path == "/v1/none" { "HTTP/1.1 404" } else { "HTTP/1.1 200" };
            assert!(response.starts_with(expected), "{framing} {path}: {response}");
            assert_eq!(
                response.matches("HTTP/1.1 ").count(),
                1,
                "no byte of the body is read as a request"
            );
            assert!(begun.elapsed() < TIMEOUT / 2, "{:?}", begun.elapsed());
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dripping_http2_request_body_delays_no_response() {
    let (replica, _) = replica(short_timeouts).await;
    let (mut reader, mut writer) = connect(&address(&replica.base), &[]).await.into_split();
    writer.write_all(&frame(HEADERS, END_HEADERS, 1, GET)).await.unwrap();
    let dripping = tokio::spawn(async move {
        while writer.write_all(&frame(DATA, 0, 1, b"x")).await.is_ok() {
            sleep(DRIP_INTERVAL).await;
        }
    });

    let frames = until_closed(&mut reader).await;

    let of_answer = |frame: &&Frame| frame.stream == 1 && frame.kind == HEADERS;
    assert_eq!(frames.iter().filter(of_answer).count(), 1, "the request is served nevertheless");
    timeout(TIMEOUT, dripping).await.expect("the connection is closed").unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn thousands_of_silent_and_dripping_connections_are_closed_in_time() {
    // The server's ends are open in this process too, and so are files of other tests.
    if !raise_file_limit(4 * CROWD as u64) {
        fn here() {}
        record_not_run(&format!("{}: needs 12,000 open files", test_name(&here)));
        return;
    }
    let (replica, key) = replica(|config| config.server.head_timeout_ms = 3_000).await;
    let address = address(&replica.base);
    let begun = Instant::now();
    let mut crowd = Vec::new();
    for n in 0..CROWD {
        let mut stream = TcpStream::connect(&address).await.unwrap();
        let beginning =
            [&b""[..], b"GET /docs HTTP/1.1\r\nX: ", b"PRI * HTTP/2.0\r\n\r\nSM"][n % 3];
        stream.write_all(beginning).await.unwrap();
        crowd.push(stream);
    }
    let connected = begun.elapsed();

    let closed = join_all(crowd.into_iter().enumerate().map(|(n, mut stream)| async move {
        let mut buffer = vec![0; 1024];
        loop {
            match timeout(10 * DRIP_INTERVAL, stream.read(&mut buffer)).await {
                Ok(Ok(0) | Err(_)) => return,
                Ok(Ok(_)) => {}
                Err(_) if n % 3 == 1 => drop(stream.write_all(b"x").await),
                Err(_) => {}
            }
        }
    }));
    let closed = timeout(TIMEOUT, closed);
    tokio::pin!(closed);
    let mut served = 0;
    loop {
        tokio::select! {
            closed = &mut closed => {
                closed.expect("all are closed in time");
                break;
            }
            response = timeout(TIMEOUT, replica.get("/genes", Some(&key))) => {
                assert_eq!(response.expect("others are served").status, 200);
                served += 1;
            }
        }
    }
    assert!(served > 10, "{served}");
    assert!(begun.elapsed() >= Duration::from_millis(2_900), "{connected:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_idles_for_over_a_minute_still_works() {
    let (replica, key) = replica(|_| {}).await;
    let address = address(&replica.base);
    let mut http1 = TcpStream::connect(&address).await.unwrap();
    let request = format!("HEAD /docs HTTP/1.1\r\nHost: t\r\nX-API-Key: {key}\r\n\r\n");
    let mut http2 = connect(&address, &[]).await;
    let mut send_stream = async |stream: u32| {
        http1.write_all(request.as_bytes()).await.unwrap();
        let mut response = Vec::new();
        while !response.ends_with(b"\r\n\r\n") {
            let read = timeout(TIMEOUT, http1.read_buf(&mut response)).await.expect("a response");
            assert_ne!(read.unwrap(), 0, "not closed");
        }
        assert!(response.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&response));
        let open = frame(HEADERS, END_HEADERS | END_STREAM, stream, GET);
        http2.write_all(&open).await.unwrap();
        loop {
            let frame = next(&mut http2).await.expect("not closed");
            if frame.stream == stream && frame.flags & END_STREAM != 0 {
                return;
            }
        }
    };
    send_stream(1).await;
    // The test is about time passing, so it sleeps.
    sleep(Duration::from_secs(62)).await;
    send_stream(3).await;
}
