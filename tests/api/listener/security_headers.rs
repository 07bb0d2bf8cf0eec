//! `X-Content-Type-Options` on every response of all listeners, and `Strict-Transport-Security` where
//! it is configured and the client uses HTTPS (over TLS: in `tls.rs`).

use std::sync::Arc;
use std::sync::atomic::Ordering;

use reqwest::Method;

use super::{ControlledUpstream, replica, replica_over};
use crate::support::control::new_token;
use crate::support::raw::{address, exchange};
use crate::support::replica::{Replica, Response};

const HSTS: &str = "strict-transport-security";

#[track_caller]
fn assert_nosniff(response: &Response) {
    let values: Vec<_> = response.headers.get_all("x-content-type-options").iter().collect();
    assert_eq!(values, ["nosniff"], "{response:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_response_of_the_public_listener_has_nosniff() {
    let (upstream, key) = ControlledUpstream::new();
    let replica = replica_over(Arc::clone(&upstream), |config| {
        config.server.cors.origins = vec!["https://app.example".to_owned()];
    })
    .await;
    let root = replica.base.trim_end_matches("/v1").to_owned();
    let tag = replica.get("/genes", Some(&key)).await.header("etag").to_owned();
    let key = ("X-API-Key", key.as_str());
    let preflight = [("Origin", "https://app.example"), ("Access-Control-Request-Method", "GET")];
    for (method, path, headers, status) in [
        (Method::GET, "/v1/genes", &[key][..], 200),
        (Method::GET, "/v1/genes", &[key, ("If-None-Match", &tag)], 304),
        (Method::GET, "/v1/genes?limit=50", &[key, ("Accept-Encoding", "gzip")], 200),
        (Method::GET, "/v1/genes?limit=0", &[key], 400),
        (Method::GET, "/v1/genes", &[], 401),
        (Method::GET, "/v1/arena/insights?domain=none", &[key], 404),
        (Method::GET, "/none", &[], 404),
        (Method::HEAD, "/v1/genes", &[key], 405),
        (Method::OPTIONS, "/v1/genes", &preflight, 204),
        (Method::POST, "/docs", &[], 405),
        (Method::GET, "/", &[], 200),
        (Method::HEAD, "/docs", &[], 200),
        (Method::GET, "/v1/openapi.json", &[], 200),
    ] {
        let response = replica.send(method, &format!("{root}{path}"), headers).await;
        assert_eq!(response.status, status, "{path}: {response:?}");
        assert_nosniff(&response);
    }
    upstream.panics.store(true, Ordering::SeqCst);
    let panicked = replica.get("/arena/insights?domain=search", Some(key.1)).await;
    assert_eq!(panicked.status, 500);
    assert_nosniff(&panicked);
    // Refused before any handler.
    let without_host = exchange(&address(&replica.base), b"GET / HTTP/1.1\r\n\r\n").await;
    assert_eq!(without_host.status, 400);
    assert_nosniff(&without_host);
    let client = reqwest::Client::builder().http2_prior_knowledge().build().unwrap();
    let many = (0..300).map(|n| (format!("x-extra-{n}"), "value"));
    let request =
        many.fold(client.get(&root), |request, (name, value)| request.header(name, value));
    let many_fields = Response::of(request.send().await.unwrap()).await;
    assert_eq!(many_fields.status, 431);
    assert_nosniff(&many_fields);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_response_of_the_other_listeners_has_nosniff() {
    let mut token = String::new();
    let (replica, _) = replica(|config| {
        config.control.bind = Some("127.0.0.1:0".parse().unwrap());
        // Keys cannot be read.
        config.upstream.url = Some("postgres://127.0.0.1:1/none".to_owned().into());
        token = format!("Bearer {}", new_token(config, "alice"));
    })
    .await;
    let control = replica.control.clone().unwrap();
    for (method, url, status) in [
        (Method::GET, format!("{}/livez", replica.ops), 200),
        (Method::HEAD, format!("{}/metrics", replica.ops), 200),
        (Method::GET, format!("{}/metrics", replica.ops), 200),
        (Method::GET, format!("{}/none", replica.ops), 404),
        (Method::POST, format!("{}/livez", replica.ops), 405),
        (Method::GET, format!("{control}/docs"), 200),
        (Method::GET, format!("{control}/none"), 404),
        (Method::GET, format!("{control}/control/v1/login"), 200),
        (Method::PUT, format!("{control}/control/v1/login"), 405),
        (Method::GET, format!("{control}/control/v1/api-keys"), 401),
    ] {
        let response = replica.send(method, &url, &[]).await;
        assert_eq!(response.status, status, "{url}: {response:?}");
        assert_nosniff(&response);
    }
    let keys = format!("{control}/control/v1/api-keys");
    let failed = replica.send(Method::GET, &keys, &[("Authorization", &token)]).await;
    assert!(failed.status.is_server_error(), "{failed:?}");
    assert_nosniff(&failed);
}

/// The header of a response to a request with these headers.
async fn hsts(replica: &Replica, headers: &[(&str, &str)]) -> String {
    let url = format!("{}/none", replica.base);
    replica.send(Method::GET, &url, headers).await.header(HSTS).to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn hsts_is_sent_where_a_trusted_proxy_reports_https() {
    const FORWARDED: [(&str, &str); 1] = [("Forwarded", "for=192.0.2.1;proto=https")];
    const X_FORWARDED: [(&str, &str); 1] = [("X-Forwarded-Proto", "https")];
    let (off, _) = replica(|config| {
        config.server.trusted_proxies = vec!["127.0.0.1".parse().unwrap()];
    })
    .await;
    let (untrusted, _) = replica(|config| config.server.hsts_max_age_s = 60).await;
    let (on, _) = replica(|config| {
        config.server.hsts_max_age_s = 31_536_000;
        config.server.trusted_proxies = vec!["127.0.0.1".parse().unwrap()];
    })
    .await;
    for headers in [&FORWARDED[..], &X_FORWARDED] {
        assert_eq!(hsts(&off, headers).await, "");
        assert_eq!(hsts(&untrusted, headers).await, "");
        assert_eq!(hsts(&on, headers).await, "max-age=31536000");
    }
    assert_eq!(hsts(&on, &[]).await, "");
    assert_eq!(hsts(&on, &[("X-Forwarded-Proto", "http")]).await, "");
}
