//! The operations listener: `/livez`, `/readyz` and `/metrics`.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use reqwest::Method;
use serde_json::json;

use super::{ControlledUpstream, TIMEOUT, replica, replica_over};
use crate::support::wait::eventually;

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_is_alive_at_once_and_ready_when_its_upstream_was_reached() {
    let (upstream, _) = ControlledUpstream::new();
    upstream.unavailable.store(true, Ordering::SeqCst);
    let replica = replica_over(Arc::clone(&upstream), |_| {}).await;
    for _ in 0..3 {
        let (live, ready) = (replica.ops("/livez").await, replica.ops("/readyz").await);
        assert_eq!((live.status.as_u16(), ready.status.as_u16()), (200, 503));
        assert_eq!(ready.json()["status"], "starting");
    }
    upstream.unavailable.store(false, Ordering::SeqCst);
    eventually(TIMEOUT, "the replica is ready", || async {
        replica.ops("/readyz").await.status == 200
    })
    .await;
    upstream.unavailable.store(true, Ordering::SeqCst);
    let ready = replica.ops("/readyz").await;
    assert_eq!(ready.status, 200, "once ready, ready until it drains");
    let body = ready.json();
    assert_eq!(
        (&body["status"], &body["redis_read"], &body["redis_write"]),
        (&json!("ready"), &json!("none"), &json!("none"))
    );
    assert!(body["upstream"].is_string(), "{body}");
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_count_requests_by_route_method_status_and_source() {
    let (replica, key) = replica(|_| {}).await;
    for _ in 0..3 {
        replica.get("/genes", Some(&key)).await;
    }
    replica.get("/genes", None).await;
    replica.get("/genes/00000000-0000-0000-0000-000000000001/phenotype", Some(&key)).await;
    let requests = "gene_registry_requests_total";
    for (series, value) in [
        (format!("{requests}{{route=\"/v1/genes\",method=\"GET\",status=\"200\"}}"), 3.0),
        (format!("{requests}{{route=\"/v1/genes\",method=\"GET\",status=\"401\"}}"), 1.0),
        ("gene_registry_answers_total{source=\"local\"}".to_owned(), 2.0),
    ] {
        assert_eq!(replica.metric(&series).await, Some(value), "{series}");
    }
    let text = replica.ops("/metrics").await;
    assert!(text.header("content-type").starts_with("text/plain; version=0.0.4"), "{text:?}");
    assert!(!text.text.contains(&key) && !text.text.contains("00000000-0000"), "{}", text.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_request_adds_a_metric_series() {
    let (replica, key) = replica(|_| {}).await;
    let ask_all = async |round: u32| {
        for n in 0..50 {
            let any = format!("{round}-{n}");
            for target in [
                format!("/v1/{any}"),
                format!("/v1/genes/{any}/phenotype"),
                format!("/v1/genes/00000000-0000-0000-0000-00000000{round:02}{n:02}/phenotype"),
                format!("/v1/arena/insights?domain={any}"),
                format!("/docs/{any}"),
                format!("/{any}"),
            ] {
                replica.raw("GET", &target, &[("X-API-Key", &key)]).await;
            }
            replica.raw(&format!("M{n}"), "/v1/genes", &[]).await;
        }
        replica.ops("/metrics").await.text.lines().count()
    };
    let first = ask_all(1).await;
    assert_eq!(ask_all(2).await, first);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_operations_listener_serves_nothing_else() {
    let (replica, key) = replica(|_| {}).await;
    for path in ["/", "/v1/genes", "/openapi.json", "/docs", "/livez/"] {
        let url = format!("{}{path}", replica.ops);
        let response = replica.send(Method::GET, &url, &[("X-API-Key", &key)]).await;
        assert_eq!(response.status, 404, "{path}");
    }
    for path in ["/livez", "/readyz", "/metrics"] {
        let url = format!("{}{path}", replica.ops);
        assert_eq!(replica.send(Method::POST, &url, &[]).await.status, 405, "{path}");
        let head = replica.send(Method::HEAD, &url, &[]).await;
        assert_eq!((head.status == 405, head.text.as_str()), (false, ""), "{path}");
        let root = replica.base.strip_suffix("/v1").unwrap();
        let public = replica.send(Method::GET, &format!("{root}{path}"), &[]).await;
        assert_eq!(public.status, 404, "not on the public listener: {path}");
    }
}
