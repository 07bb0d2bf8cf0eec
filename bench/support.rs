//! A complete replica without sockets, on constant inputs, for counts and timings in process.

use std::sync::Arc;
use std::time::Duration;

use gene_registry::api::{
    AccessControl, Document, Observability, Pages, PublicApi, SharedNumbers, TrustedProxies,
};
use gene_registry::cache::ReadThrough;
use gene_registry::config::{Config, LoadedConfig};
use gene_registry::default_schema::generate;
use gene_registry::keys::{ApiKey, Authenticator, READ_SCOPE};
use gene_registry::limit::{LimitOptions, Limiter};
use gene_registry::ops::{Dependencies, Dependency, Health, Metrics, Traces};
use gene_registry::registry::{ApiKeyRecord, Catalogue, Timestamp};
use gene_registry::upstream::{ChangePoller, Embedded, UpstreamClient};
use poem::http::{HeaderValue, Method, Uri, header};
use poem::{Request, Response};

/// A key that no other service accepts.
pub const KEY: &str = "gr_Bench000_0123456789ABCDEFGHIJKLMNOPQRSTUV3doDaq";

/// A page of 20 genes.
pub const PAGE: &str = "/v1/genes?domain=bench.large&limit=20";

/// The default configuration, without Redis.
pub fn config() -> Config {
    let mut config = LoadedConfig::read(None).expect("the defaults").config;
    config.redis.url = None;
    config
}

/// A registry of a thousand genes in memory, with one key of the largest limit.
pub fn upstream(config: &Config) -> Arc<UpstreamClient> {
    let catalogue = Catalogue { genes: generate::genes(1000, 1).collect() };
    let key: ApiKey = KEY.parse().expect("a key");
    let record = ApiKeyRecord {
        hash: key.hash(),
        prefix: key.prefix().to_owned(),
        owner: "bench".to_owned(),
        name: "bench".to_owned(),
        scopes: vec![READ_SCOPE.to_owned()],
        rate_limit_per_minute: 2_147_483_647,
        expires_at: None,
        revoked_at: None,
    };
    let install = config.registry.install_command.clone();
    let (now, keys) = (Timestamp::now(), vec![record]);
    UpstreamClient::new(Arc::new(Embedded::from_catalogue(&catalogue, now, keys, install)))
}

/// The limiter of a replica without Redis.
pub fn limiter<K>(metrics: &Metrics) -> Limiter<K>
where
    K: Eq + std::hash::Hash + Copy + std::fmt::Display + Send + Sync + 'static,
{
    let config = config();
    Limiter::in_process(LimitOptions {
        replicas: 1,
        without_redis: config.rate_limit.without_redis,
        enforce: true,
        metrics: metrics.limits(),
    })
}

/// Everything that serves a request, from its head on. Must be called on a runtime.
pub fn public_api() -> PublicApi {
    let config = config();
    let metrics = Arc::new(Metrics::default());
    let upstream = upstream(&config);
    tokio::spawn(ChangePoller::new(Arc::clone(&upstream)).run());
    let reads = ReadThrough::new(&config, None, Arc::clone(&upstream), Arc::clone(&metrics));
    let authenticator = Authenticator::new(upstream, false, None, Arc::clone(&metrics));
    let gate = AccessControl {
        authenticator: Arc::new(authenticator),
        trusted_proxies: TrustedProxies::default(),
        limiter: limiter(&metrics),
        timeout: Duration::from_millis(config.server.request_timeout_ms),
    };
    let none = Dependency::None;
    let dependencies = Dependencies {
        upstream: none,
        primary: None,
        standbys: Vec::new(),
        redis_read: none,
        redis_write: none,
        views: none,
        change_log: none,
    };
    let pages = Pages {
        document: Document::default(),
        public_url: None,
        documents_own_address: false,
        trusted_proxies: TrustedProxies::default(),
        health: Arc::new(Health::default()),
        dependencies: Arc::new(move || dependencies.clone()),
        config: config.pages.clone(),
        control_url: None,
        numbers: SharedNumbers::default(),
    };
    let traces = Traces::new(&config.telemetry).expect("no traces");
    let observability = Observability { metrics, traces };
    PublicApi::new(reads, gate, pages, &config.server, observability)
}

/// A request with the headers of browsers and SDKs.
pub fn request(path: &'static str) -> Request {
    let mut request = Request::builder().method(Method::GET).uri(Uri::from_static(path)).finish();
    let headers = request.headers_mut();
    headers.insert(header::HOST, HeaderValue::from_static("localhost:8080"));
    headers.insert(header::USER_AGENT, HeaderValue::from_static("bench"));
    headers.insert(header::ACCEPT, HeaderValue::from_static("*/*"));
    headers.insert("x-api-key", HeaderValue::from_static(KEY));
    request
}

/// The length of a response's body in bytes; panics unless the status is 200.
pub async fn body(mut response: Response) -> usize {
    assert!(response.status().is_success(), "{}", response.status());
    response.take_body().into_bytes().await.expect("a body in memory").len()
}
