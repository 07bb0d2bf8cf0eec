//! The catalog of metrics against a running replica.

use std::collections::BTreeMap;
use std::time::Duration;

use gene_registry::ops::catalog::{self, MetricDescription};
use reqwest::Method;

use super::rules::names_in;
use crate::support::authority::{Authority, VALID};
use crate::support::control::new_token;
use crate::support::postgres::PostgresServer;
use crate::support::redis::RedisServer;
use crate::support::replica::{Fleet, Replica, Response, config};
use crate::support::traffic::routes;
use crate::support::wait::eventually;

/// The metrics of a replica that has served one request of each kind.
pub(super) async fn metrics_of_a_replica() -> Response {
    let (postgres, redis) = (PostgresServer::shared().await, RedisServer::shared().await);
    let fleet = Fleet::start_with(1, postgres, redis, |config| {
        config.control.bind = Some("127.0.0.1:0".parse().unwrap());
        new_token(config, "alice");
        config.redis.timeout_ms = 5_000;
        // The primary serves as its own standby here.
        config.upstream.read_urls.extend(config.upstream.url.clone());
    })
    .await;
    let lag = "gene_registry_standby_lag_seconds{standby=\"1\"}";
    let memory = "gene_registry_redis_memory_ratio";
    eventually(
        Duration::from_secs(20),
        "the replica is ready, and the standby's lag and the memory of Redis are known",
        async || {
            let replica = &fleet.replicas[0];
            let is_ready = replica.metric("gene_registry_ready").await == Some(1.0);
            is_ready
                && replica.metric(lag).await.is_some()
                && replica.metric(memory).await.is_some()
        },
    )
    .await;
    let (replica, key) = (&fleet.replicas[0], fleet.database.new_key(1000).await);
    for path in routes(&fleet.database).await {
        assert_eq!(replica.get(&path, Some(&key)).await.status, 200);
    }
    let login = format!("{}/control/v1/login", replica.control.clone().unwrap());
    assert_eq!(replica.send(Method::GET, &login, &[]).await.status, 200);
    replica.ops("/metrics").await
}

/// The metrics of a replica with everything that alerts watch, and without any request so far.
pub(super) async fn metrics_before_any_request() -> Response {
    let (postgres, redis) = (PostgresServer::shared().await, RedisServer::shared().await);
    let files = Authority::new().certify("localhost", VALID);
    let fleet = Fleet::start_with(1, postgres, redis, |config| {
        config.control.bind = Some("127.0.0.1:0".parse().unwrap());
        new_token(config, "alice");
        config.redis.timeout_ms = 5_000;
        config.upstream.read_urls.extend(config.upstream.url.clone());
        (config.server.tls.cert_file, config.server.tls.key_file) = (Some(files.0), Some(files.1));
    })
    .await;
    let memory = "gene_registry_redis_memory_ratio";
    eventually(Duration::from_secs(20), "the memory of Redis is known", async || {
        fleet.replicas[0].metric(memory).await.is_some()
    })
    .await;
    fleet.replicas[0].ops("/metrics").await
}

/// The metrics of a replica that serves TLS.
pub(super) async fn metrics_with_tls() -> Response {
    let files = Authority::new().certify("localhost", VALID);
    let mut config = config("postgres://127.0.0.1:1/none", None);
    (config.server.tls.cert_file, config.server.tls.key_file) = (Some(files.0), Some(files.1));
    Replica::start(&config).await.ops("/metrics").await
}

/// Present only with TLS.
const WITH_TLS: &str = "gene_registry_certificate_expiry_timestamp_seconds";

/// The samples as metric (without the suffixes of histograms), label names and value.
fn samples(text: &str) -> Vec<(String, Vec<String>, f64)> {
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    let sample = |line: &str| {
        let (series, value) = line.rsplit_once(' ').unwrap();
        let (name, labels) = series.split_once('{').unwrap_or((series, ""));
        // No label value contains these characters.
        let labels = labels.trim_end_matches('}').split(',').filter(|label| !label.is_empty());
        let labels = labels.map(|label| label.split_once('=').unwrap().0.to_owned());
        (names_in(name).remove(0), labels.collect(), value.parse().unwrap())
    };
    lines.map(sample).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_exposes_exactly_the_catalog_of_metrics() {
    let text = metrics_of_a_replica().await.text;
    let listed: BTreeMap<_, _> = catalog::ALL.iter().map(|one| (one.name, one)).collect();
    let kinds: BTreeMap<_, _> =
        text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' ')).collect();
    let here = listed.iter().filter(|(name, _)| **name != WITH_TLS);
    let expected: BTreeMap<_, _> = here.map(|(name, one)| (*name, one.kind.as_str())).collect();
    assert_eq!(kinds, expected);
    for MetricDescription { name, help, .. } in catalog::ALL {
        let said = format!("# HELP {name} {help}\n");
        assert!(text.contains(&said) || *name == WITH_TLS, "{name}: {text}");
    }
    assert!(metrics_with_tls().await.text.contains(&format!("\n{WITH_TLS} ")));
    for (name, labels, _) in samples(&text) {
        let given: Vec<_> = labels.iter().filter(|label| *label != "le").collect();
        assert_eq!(given, listed[name.as_str()].labels.iter().collect::<Vec<_>>(), "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_of_stores_caches_and_domains_have_the_actual_values() {
    let text = metrics_of_a_replica().await.text;
    let value = |series: &str| -> f64 {
        let line = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("{series}: {text}")).parse().unwrap()
    };
    let is = |series: &str, expected: f64| {
        assert!((value(series) - expected).abs() < 1e-9, "{series}: {}", value(series));
    };
    is("gene_registry_ready", 1.0);
    is(r#"gene_registry_connections_refused_total{listener="public"}"#, 0.0);
    // Three responses, and the count of the search.
    is("gene_registry_local_cache_entries", 4.0);
    assert!(value("gene_registry_local_cache_bytes") > 1000.0);
    is(r#"gene_registry_key_records{known="yes"}"#, 1.0);
    is(r#"gene_registry_domain_genes{domain="search"}"#, 13.0);
    is(r#"gene_registry_pool_max_connections{pool="postgres"}"#, 16.0);
    is(r#"gene_registry_pool_max_connections{pool="redis"}"#, 4.0);
    for pool in ["postgres", "redis", "redis_publications", "redis_limits"] {
        let of = |state| {
            value(&format!(r#"gene_registry_pool_connections{{pool="{pool}",state="{state}"}}"#))
        };
        assert!(of("idle") + of("in_use") >= 1.0, "{pool}: {text}");
        is(&format!(r#"gene_registry_pool_waiting{{pool="{pool}"}}"#), 0.0);
    }
    assert!(value(r#"gene_registry_change_log_polls_total{result="ok"}"#) >= 1.0);
    assert!(value("gene_registry_change_log_age_seconds") < 30.0);
    let hundred_microseconds = r#"gene_registry_request_seconds_bucket{route="/v1/genes",method="GET",status="200",le="0.0001"}"#;
    assert!(value(hundred_microseconds) <= 1.0, "the bucket exists");
}
