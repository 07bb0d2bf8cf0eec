//! HAProxy, nginx and Caddy with the files of this repository, which terminate TLS before two replicas.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::join_all;
use futures_util::stream;
use gene_registry::keys::ApiKey;
use hyper::{Method, Version};
use serde_json::json;
use tokio::task::JoinHandle;

use crate::support::binary::ReplicaProcess;
use crate::support::database::Database;
use crate::support::free_port;
use crate::support::front_proxy::{FrontProxy, FrontProxyKind, HOSTS, Ports, TlsClient};
use crate::support::postgres::PostgresServer;
use crate::support::redis::RedisServer;
use crate::support::replica::{READER, sample};
use crate::support::wait::eventually;

const TIMEOUT: Duration = Duration::from_secs(30);

/// As many as HAProxy accepts on a connection.
const CONCURRENT: usize = 8;

const VERSIONS: [Version; 2] = [Version::HTTP_11, Version::HTTP_2];

/// What a client sends to appear as another one, or to be told another address.
const FORGED: [(&str, &str); 5] = [
    ("Forwarded", "for=192.0.2.1;host=evil.example;proto=http"),
    ("X-Forwarded-For", "192.0.2.1"),
    ("X-Forwarded-Proto", "http"),
    ("X-Forwarded-Host", "evil.example"),
    ("X-Forwarded-Prefix", "/evil"),
];

/// Two replicas behind a proxy, and a key for them.
struct Site {
    replicas: Vec<ReplicaProcess>,
    env: Vec<(&'static str, String)>,
    proxy: FrontProxy,
    key: String,
    _database: Database<'static>,
}

impl Site {
    async fn start(kind: FrontProxyKind) -> Self {
        let database = sample(PostgresServer::shared().await).await;
        let (redis, prefix) = (RedisServer::shared().await, RedisServer::new_prefix());
        let ports = Ports { public: free_port(), ops: free_port() };
        let env = vec![
            ("DATABASE_URL", database.url_as(READER)),
            ("REDIS_URL", redis.url()),
            ("GENE_REGISTRY__REDIS__PREFIX", prefix),
            ("GENE_REGISTRY__RATE_LIMIT__REPLICAS", "2".to_owned()),
            ("GENE_REGISTRY__SERVER__TRUSTED_PROXIES", "[\"127.0.0.1\"]".to_owned()),
            ("GENE_REGISTRY__SERVER__DRAIN_MS", "3000".to_owned()),
        ];
        let mut replicas = Vec::new();
        for number in 0..HOSTS.len() {
            replicas.push(start_replica(&env, number, ports).await);
        }
        let key = database.new_key(1_000_000).await;
        let proxy = FrontProxy::start(kind, ports).await;
        Self { replicas, env, proxy, key, _database: database }
    }

    fn url(&self, path: &str) -> String {
        format!("{}{path}", self.proxy.url)
    }

    /// Restarts a replica, and waits until the proxy uses it again.
    async fn restart(&mut self, number: usize) {
        let old = self.replicas.remove(number);
        let port = |url: &str| url::Url::parse(url).unwrap().port().unwrap();
        let ports = Ports { public: port(&old.replica.base), ops: port(&old.replica.ops) };
        let ended = old.terminated_within(TIMEOUT).await;
        assert!(ended.is_some_and(|status| status.success()), "{}", old.log());
        let new = start_replica(&self.env, number, ports).await;
        eventually(TIMEOUT, "the proxy uses it again", async || {
            let ok = r#"gene_registry_requests_total{route="/v1/genes",method="GET",status="200"}"#;
            new.replica.metric(ok).await > Some(20.0)
        })
        .await;
        self.replicas.insert(number, new);
    }
}

async fn start_replica(
    env: &[(&'static str, String)],
    number: usize,
    Ports { public, ops }: Ports,
) -> ReplicaProcess {
    let host = HOSTS[number];
    let (bind, ops) = (format!("{host}:{public}"), format!("{host}:{ops}"));
    let mut env: Vec<_> = env.iter().map(|(name, value)| (*name, value.as_str())).collect();
    env.extend([
        ("GENE_REGISTRY__SERVER__BIND", bind.as_str()),
        ("GENE_REGISTRY__OPS__BIND", &ops),
    ]);
    let process = ReplicaProcess::start(&env).await;
    eventually(TIMEOUT, "it is ready", async || process.replica.ops("/readyz").await.status == 200)
        .await;
    process
}

/// Requests on a connection of each protocol, until they are stopped.
struct Load {
    stop: Arc<AtomicBool>,
    streams: Vec<JoinHandle<Vec<Result<u16, String>>>>,
}

impl Load {
    fn start(site: &Site) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stream = |version| {
            let client = site.proxy.client(version);
            let (url, key, stop) =
                (site.url("/v1/genes?limit=1"), site.key.clone(), Arc::clone(&stop));
            tokio::spawn(async move {
                let mut results = Vec::new();
                while !stop.load(Ordering::Relaxed) {
                    let response = client.send(Method::GET, &url, &[("X-API-Key", &key)]).await;
                    results.push(response.map(|response| response.status.as_u16()));
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
                results
            })
        };
        let streams = VERSIONS.repeat(2).into_iter().map(stream).collect();
        Self { stop, streams }
    }

    async fn stop(self) -> Vec<Result<u16, String>> {
        self.stop.store(true, Ordering::Relaxed);
        join_all(self.streams).await.into_iter().flat_map(Result::unwrap).collect()
    }
}

async fn check(kind: FrontProxyKind) {
    let mut site = Site::start(kind).await;
    for version in VERSIONS {
        let client = site.proxy.client(version);
        responses_are_those_of_a_replica(&site, &client).await;
    }
    forged_addresses_are_ignored(&site).await;

    let load = Load::start(&site);
    for number in 0..HOSTS.len() {
        site.restart(number).await;
    }
    let results = load.stop().await;
    let failed: Vec<_> = results.iter().filter(|result| **result != Ok(200)).collect();
    assert!(failed.is_empty(), "{} of {}: {failed:?}", failed.len(), results.len());
    assert!(results.len() > 500, "{}", results.len());

    for process in &site.replicas {
        process.kill();
    }
    for version in VERSIONS {
        let client = site.proxy.client(version);
        let headers = [("X-API-Key", site.key.as_str())];
        let response = client.send(Method::GET, &site.url("/v1/genes"), &headers).await.unwrap();
        assert!([502, 503].contains(&response.status.as_u16()), "{response:?}");
        assert_eq!(response.code(), "UNAVAILABLE", "{response:?}");
        assert_eq!(response.header("content-type"), "application/json");
        assert_eq!(response.header("cache-control"), "no-store");
    }
}

async fn responses_are_those_of_a_replica(site: &Site, client: &TlsClient) {
    let send = async |method, path: &str, headers: &[(&str, &str)]| {
        let response = client.send(method, &site.url(path), headers).await;
        response.unwrap_or_else(|error| panic!("{path}: {error}: {}", site.proxy.report()))
    };
    let key = ("X-API-Key", site.key.as_str());
    let document = send(Method::GET, "/v1/openapi.json", &FORGED).await;
    let servers = &document.json()["servers"];
    assert_eq!(*servers, json!([{ "url": site.url("/v1") }]));

    let page = send(Method::GET, "/v1/genes?domain=search&limit=2", &[key]).await;
    assert_eq!(page.status, 200, "{page:?}");
    assert!(page.header("link").contains("offset=2"), "{page:?}");
    let etag = page.header("etag").to_owned();
    assert!(!etag.contains("gzip"), "the proxy does not ask for what the client does not: {etag}");
    let unchanged = [key, ("If-None-Match", &etag)];
    let unchanged = send(Method::GET, "/v1/genes?domain=search&limit=2", &unchanged).await;
    assert_eq!((unchanged.status.as_u16(), unchanged.text.as_str()), (304, ""));
    let compressed = [key, ("Accept-Encoding", "gzip")];
    let compressed = send(Method::GET, "/v1/genes?limit=50", &compressed).await;
    assert_eq!(compressed.header("content-encoding"), "gzip");

    send(Method::GET, "/v1/genes", &[]).await.assert_refused(401, "UNAUTHORIZED");
    assert_eq!(send(Method::POST, "/v1/genes", &[key]).await.status, 405);
    let long = format!("/v1/genes?domain={}", "a".repeat(30_000));
    send(Method::GET, &long, &[key]).await.assert_refused(400, "MISSING_PARAM");
}

/// More unknown keys than a client has a budget for: the log names the client.
async fn forged_addresses_are_ignored(site: &Site) {
    let client = site.proxy.client(Version::HTTP_2);
    let send = |number: u32| {
        let (client, url) = (client.clone(), site.url("/v1/genes"));
        async move {
            let (key, address) = (ApiKey::generate().unwrap(), format!("192.0.2.{number}"));
            let headers = [("X-API-Key", key.expose()), ("X-Forwarded-For", address.as_str())];
            client.send(Method::GET, &url, &headers).await.unwrap()
        }
    };
    let requests = (0..1_000).map(|number| send(number % 250));
    let responses = stream::iter(requests).buffer_unordered(CONCURRENT).count();
    assert_eq!(responses.await, 1_000);
    let told =
        |words: &[&str]| site.replicas.iter().map(|one| one.lines_with(words)).sum::<usize>();
    eventually(TIMEOUT, "the log names the client", async || {
        told(&["this source fails too often", "127.0.0.1"]) > 0
    })
    .await;
    assert_eq!(told(&["this source fails too often", "192.0.2."]), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn haproxy_with_tls_serves_two_replicas() {
    check(FrontProxyKind::HaProxy).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nginx_serves_two_replicas() {
    check(FrontProxyKind::Nginx).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn caddy_serves_two_replicas() {
    check(FrontProxyKind::Caddy).await;
}
