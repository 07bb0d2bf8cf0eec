//! Pages of other origins: refused by default; allowed ones can read errors too.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use reqwest::Method;
use serde_json::Value;

use super::{ControlledUpstream, replica, replica_over};
use crate::support::replica::{Replica, Response};

const ORIGIN: &str = "https://app.example";
const PATHS: [&str; 6] =
    ["/v1/genes", "/v1/arena/insights", "/v1/openapi.json", "/docs", "/", "/v1/none"];

/// A replica that allows these origins, and a key for it.
async fn allowing(origins: &[&str]) -> (Replica, String) {
    let origins = origins.iter().map(|&origin| origin.to_owned()).collect();
    replica(|config| config.server.cors.origins = origins).await
}

async fn send(replica: &Replica, method: Method, path: &str, headers: &[(&str, &str)]) -> Response {
    let url = format!("{}{path}", replica.base.strip_suffix("/v1").unwrap());
    replica.send(method, &url, headers).await
}

/// The request that a browser sends before one with a key.
async fn preflight(replica: &Replica, path: &str, origin: &str) -> Response {
    let headers = [
        ("Origin", origin),
        ("Access-Control-Request-Method", "GET"),
        ("Access-Control-Request-Headers", "if-none-match,x-api-key"),
    ];
    send(replica, Method::OPTIONS, path, &headers).await
}

fn names(response: &Response, header: &str) -> Vec<String> {
    let values = response.headers.get_all(header).iter();
    let all: Vec<_> = values.map(|value| value.to_str().unwrap().to_lowercase()).collect();
    all.join(",").split(',').map(|name| name.trim().to_owned()).collect()
}

#[track_caller]
fn assert_silent(response: &Response) {
    let about = |name: &&str| name.starts_with("access-control");
    let found: Vec<_> = response.headers.keys().map(|name| name.as_str()).filter(about).collect();
    assert!(found.is_empty(), "{found:?}");
}

/// Checks that the page at `origin` can read the response and its headers.
#[track_caller]
fn assert_readable(response: &Response, origin: &str) {
    assert_eq!(response.header("access-control-allow-origin"), origin, "{response:?}");
    assert!(response.headers.get("access-control-allow-credentials").is_none(), "{response:?}");
    let exposed = names(response, "access-control-expose-headers");
    let safe = ["cache-control", "content-length", "content-type"];
    let hidden = ["vary", "date", "content-encoding", "connection", "transfer-encoding"];
    let security = [
        "content-security-policy",
        "cross-origin-opener-policy",
        "referrer-policy",
        "x-content-type-options",
    ];
    for name in response.headers.keys().map(|name| name.as_str()) {
        let needs_none = [&safe[..], &hidden, &security].concat().contains(&name);
        let is_exposed = needs_none
            || name.starts_with("access-control")
            || exposed.iter().any(|exposed| exposed == name);
        assert!(is_exposed, "{name}: {exposed:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn by_default_there_are_no_cors_headers_and_options_is_refused() {
    let (replica, key) = replica(|_| {}).await;
    for path in PATHS {
        let headers = [("Origin", ORIGIN), ("X-API-Key", &*key)];
        let response = send(&replica, Method::GET, path, &headers).await;
        assert_silent(&response);
        assert!(!names(&response, "vary").contains(&"origin".to_owned()), "{response:?}");
        let refused = preflight(&replica, path, ORIGIN).await;
        assert_silent(&refused);
        let expected = if path == "/v1/none" { 404 } else { 405 };
        assert_eq!(refused.status, expected, "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_preflight_needs_no_key_and_is_not_counted() {
    for (origins, allowed) in [(&[ORIGIN, "http://localhost:3000"][..], ORIGIN), (&["*"], "*")] {
        let (replica, key) = allowing(origins).await;
        let remaining = async || {
            let response = replica.get("/genes", Some(&key)).await;
            response.header("x-ratelimit-remaining").parse::<u32>().unwrap()
        };
        let before = remaining().await;
        for path in PATHS {
            let response = preflight(&replica, path, ORIGIN).await;
            assert_eq!((response.status.as_u16(), &*response.text), (204, ""), "{path}");
            assert_eq!(response.header("access-control-allow-origin"), allowed);
            let sent = names(&response, "access-control-allow-headers");
            for name in ["x-api-key", "if-none-match", "accept", "x-request-id"] {
                assert!(sent.iter().any(|sent| sent == name), "{name}: {response:?}");
            }
            let is_page = ["/v1/openapi.json", "/docs", "/"].contains(&path);
            let methods = if is_page { &["get", "head"][..] } else { &["get"] };
            assert_eq!(names(&response, "access-control-allow-methods"), methods, "{path}");
            assert_eq!(response.header("access-control-max-age"), "7200");
            assert!(response.headers.get("access-control-allow-credentials").is_none());
            assert_ne!(response.header("x-request-id"), "");
        }
        assert_eq!(remaining().await, before - 1);
        let no_preflight =
            send(&replica, Method::OPTIONS, "/v1/genes", &[("Origin", ORIGIN)]).await;
        no_preflight.assert_refused(405, "METHOD_NOT_ALLOWED");
        assert_readable(&no_preflight, allowed);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn allowed_pages_can_read_responses_and_errors() {
    let (upstream, key) = ControlledUpstream::new();
    let origins = vec![ORIGIN.to_owned()];
    let replica =
        replica_over(Arc::clone(&upstream), |config| config.server.cors.origins = origins).await;
    let send_with_origin = async |method: Method, path: &str, key: &str| {
        send(&replica, method, path, &[("Origin", ORIGIN), ("X-API-Key", key)]).await
    };
    let tag = send_with_origin(Method::GET, "/v1/genes", &key).await.header("etag").to_owned();
    for (method, path, key, status) in [
        (Method::GET, "/v1/genes", &*key, 200),
        (Method::GET, "/v1/genes", "", 401),
        (Method::GET, "/v1/genes?limit=x", &key, 400),
        (Method::GET, "/v1/none", &key, 404),
        (Method::POST, "/v1/genes", &key, 405),
        (Method::GET, "/v1/openapi.json", "", 200),
        (Method::GET, "/docs", "", 200),
    ] {
        let response = send_with_origin(method, path, key).await;
        assert_eq!(response.status, status, "{path}");
        assert_readable(&response, ORIGIN);
        assert!(names(&response, "vary").contains(&"origin".to_owned()), "{response:?}");
    }
    let headers = [("Origin", ORIGIN), ("X-API-Key", &*key), ("If-None-Match", &*tag)];
    let unchanged = send(&replica, Method::GET, "/v1/genes", &headers).await;
    assert_eq!(unchanged.status, 304);
    assert_readable(&unchanged, ORIGIN);
    upstream.panics.store(true, Ordering::SeqCst);
    let crashed = send_with_origin(Method::GET, "/v1/arena/insights?domain=search", &key).await;
    assert_eq!(crashed.status, 500);
    assert_readable(&crashed, ORIGIN);
}

#[tokio::test(flavor = "multi_thread")]
async fn other_origins_get_no_cors_headers_and_responses_vary_by_origin() {
    let (replica, key) = allowing(&[ORIGIN]).await;
    for origin in ["https://app.example.evil", "http://app.example", "https://APP.example", "null"]
    {
        let refused = preflight(&replica, "/v1/genes", origin).await;
        refused.assert_refused(405, "METHOD_NOT_ALLOWED");
        assert_silent(&refused);
        let headers = [("Origin", origin), ("X-API-Key", &*key)];
        let response = send(&replica, Method::GET, "/v1/genes", &headers).await;
        assert_eq!(response.status, 200, "the browser hides it from the page");
        assert_silent(&response);
        assert!(names(&response, "vary").contains(&"origin".to_owned()), "{response:?}");
    }
    let without = send(&replica, Method::GET, "/v1/openapi.json", &[]).await;
    let vary = names(&without, "vary");
    assert!(["origin", "accept-encoding"].iter().all(|name| vary.contains(&(*name).to_owned())));

    let (any, _) = allowing(&["*"]).await;
    let without = send(&any, Method::GET, "/v1/openapi.json", &[]).await;
    assert_eq!(without.header("access-control-allow-origin"), "*", "the same for all");
    assert!(!names(&without, "vary").contains(&"origin".to_owned()), "{without:?}");
    let document: Value = without.json();
    assert!(document["paths"].is_object());
}
