//! `Host` and `:authority` (RFC 9112, section 3.2; RFC 9113, section 8.3.1), on every listener.

use gene_registry::config::Config;
use tokio::io::AsyncWriteExt;

use super::is_request_id;
use crate::support::control::{new_token, with_control};
use crate::support::database::Database;
use crate::support::frames::{HEADERS, RST_STREAM, connect, next, open_to};
use crate::support::postgres::PostgresServer;
use crate::support::raw::{address, exchange};
use crate::support::replica::{READER, Replica, Response, config, long_timeouts, sample};

const VALID: [&str; 9] = [
    "a.example",
    "A.example:80",
    "a:",
    "a:0",
    "a:65535",
    "127.0.0.1",
    "[::1]",
    "[2001:db8::1]:8080",
    "%61.b",
];

const MALFORMED: [&str; 20] = [
    "a b",
    "a@b",
    "user:password@b",
    "a:99999",
    "a:65536",
    "a:-1",
    "a:+1",
    "a:b",
    "a:1:2",
    ":80",
    "[::1",
    "::1",
    "[::1]x",
    "[]",
    "[a]",
    "a/b",
    "a?b",
    "a#b",
    "a%4",
    "é",
];

/// A path that is served without a key on each listener.
async fn replica() -> (Database<'static>, Replica) {
    let database = sample(PostgresServer::shared().await).await;
    let mut config: Config = config(&database.url_as(READER), None);
    long_timeouts(&mut config);
    with_control(&mut config, &database);
    new_token(&mut config, "alice");
    let replica = Replica::start(&config).await;
    (database, replica)
}

/// The address of each listener with a path that needs no key.
fn listeners(replica: &Replica) -> [(String, &'static str); 3] {
    let control = replica.control.as_ref().unwrap();
    [
        (address(&replica.base), "/docs"),
        (address(control), "/docs"),
        (address(&replica.ops), "/livez"),
    ]
}

#[track_caller]
fn assert_refused(response: &Response, path: &str, what: &str) {
    assert_eq!(response.status, 400, "{what}: {response:?}");
    if path == "/livez" {
        assert!(response.text.contains("must be"), "{what}: {response:?}");
        return;
    }
    response.assert_refused(400, "MISSING_PARAM");
    assert_eq!(response.header("cache-control"), "no-store", "{response:?}");
    assert!(is_request_id(response.header("x-request-id")), "{response:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn http1_requests_name_exactly_one_well_formed_host() {
    let (_database, replica) = replica().await;
    for (address, path) in listeners(&replica) {
        let ask = async |target: &str, version: &str, hosts: &[&str], end: &str| {
            let mut head = format!("GET {target} HTTP/{version}\r\n");
            hosts.iter().for_each(|host| head.push_str(&format!("Host: {host}\r\n")));
            exchange(&address, format!("{head}{end}\r\n").as_bytes()).await
        };
        let close = "Connection: close\r\n";
        for host in VALID.into_iter().chain([""]) {
            let response = ask(path, "1.1", &[host], close).await;
            assert_eq!(response.status, 200, "{address} {host:?}: {response:?}");
        }
        // The connection is closed after a refusal.
        for host in MALFORMED {
            for version in ["1.1", "1.0"] {
                assert_refused(&ask(path, version, &[host], "").await, path, host);
            }
            assert_refused(&ask(&format!("http://a{path}"), "1.1", &[host], "").await, path, host);
        }
        assert_refused(&ask(path, "1.1", &[], "").await, path, "no host");
        assert_refused(&ask(path, "1.1", &["a", "a"], "").await, path, "two hosts");
        assert_refused(&ask(path, "1.0", &["a", "a"], "").await, path, "two hosts");
        assert_eq!(ask(path, "1.0", &[], "").await.status, 200, "HTTP/1.0 needs no host");
        for authority in ["u@a", "u:p@a", "a:99999", "a:x", "[1]"] {
            let target = format!("http://{authority}{path}");
            assert_refused(&ask(&target, "1.1", &["a"], "").await, path, &target);
        }
        let target = format!("http://a:80{path}");
        let response = ask(&target, "1.1", &["b"], close).await;
        assert_eq!(response.status, 200, "the target replaces Host: {response:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_comes_before_route_method_and_key() {
    let (_database, replica) = replica().await;
    let address = address(&replica.base);
    for request in ["GET /v1/genes", "POST /v1/genes", "GET /none", "HEAD /docs", "OPTIONS *"] {
        let head = format!("{request} HTTP/1.1\r\nHost: a b\r\n\r\n");
        let response = exchange(&address, head.as_bytes()).await;
        assert_eq!(response.status, 400, "{request}: {response:?}");
        assert_eq!(response.header("connection"), "close", "{request}: {response:?}");
    }
    let refused = r#"gene_registry_requests_total{route="unknown",method="GET",status="400"}"#;
    assert_eq!(replica.metric(refused).await, Some(2.0));
}

/// `:status` in the static table of HPACK (RFC 7541, appendix A).
const OK: u8 = 0x80 | 8;
const BAD_REQUEST: u8 = 0x80 | 12;

#[tokio::test(flavor = "multi_thread")]
async fn http2_requests_name_one_host_in_authority_and_host() {
    let (_database, replica) = replica().await;
    for (address, path) in listeners(&replica) {
        let mut stream = connect(&address, &[]).await;
        let mut number = 1;
        let mut ask = async |authority: Option<&str>, hosts: &[&str]| {
            let fields: Vec<_> = hosts.iter().map(|host| ("host", *host)).collect();
            stream.write_all(&open_to(number, authority, path, &fields)).await.unwrap();
            loop {
                let frame = next(&mut stream).await.expect("the connection goes on");
                if frame.stream == number && [HEADERS, RST_STREAM].contains(&frame.kind) {
                    number += 2;
                    break (frame.kind == HEADERS).then(|| frame.payload[0]);
                }
            }
        };
        for (authority, hosts) in [
            (Some("a"), &[][..]),
            (Some("a:8080"), &[]),
            (Some("[::1]:8080"), &[]),
            (Some("a"), &["a"]),
            (Some("a"), &["A:80"]),
            (None, &["a"]),
        ] {
            assert_eq!(ask(authority, hosts).await, Some(OK), "{address} {authority:?} {hosts:?}");
        }
        for (authority, hosts) in [
            (Some("a"), &["b"][..]),
            (Some("a"), &["a:81"]),
            (Some("a"), &[""]),
            (Some("a"), &["a", "a"]),
            (Some("a@b"), &[]),
            (Some("u:p@a"), &[]),
            (Some("a:99999"), &[]),
            (Some("a:x"), &[]),
            (Some("[1]"), &[]),
            (None, &[]),
            (None, &[""]),
            (None, &["a b"]),
            (None, &["a:99999"]),
        ] {
            let status = ask(authority, hosts).await;
            assert_eq!(status, Some(BAD_REQUEST), "{address} {authority:?} {hosts:?}");
        }
        // The library resets these streams itself (RFC 9113, section 8.1.1).
        for authority in ["a b", "[::1", "a/b"] {
            assert_eq!(ask(Some(authority), &[]).await, None, "{address} {authority}");
        }
        assert_eq!(ask(Some("a"), &[]).await, Some(OK), "the connection goes on");
    }
}
