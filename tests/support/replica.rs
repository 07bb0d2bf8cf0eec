//! Replicas of the service, assembled by its own composition root, and an HTTP client for them.

use std::sync::Arc;

use gene_registry::app::{self, Running};
use gene_registry::config::{Config, LoadedConfig};
use gene_registry::default_schema::migrate;
use gene_registry::keys::{ApiKey, KeySpec, NewKey, insert_key};
use gene_registry::registry::{Catalogue, CatalogueGene, Timestamp};
use gene_registry::upstream::{Postgres, Upstream};
use reqwest::header::HeaderMap;
use reqwest::{Method, StatusCode};
use serde_json::Value;

use super::database::Database;
use super::postgres::PostgresServer;
use super::redis::RedisServer;

pub(crate) use super::database::READER;

/// The default configuration on free ports of 127.0.0.1, with this database and Redis.
pub(crate) fn config(database_url: &str, redis: Option<(&str, &str)>) -> Config {
    let mut config = LoadedConfig::read(None).unwrap().config;
    config.server.bind = "127.0.0.1:0".parse().unwrap();
    config.ops.bind = "127.0.0.1:0".parse().unwrap();
    config.upstream.url = Some(database_url.to_owned().into());
    config.redis.url = redis.map(|(url, _)| url.to_owned().into());
    config.redis.prefix = redis.map_or("gr", |(_, prefix)| prefix).to_owned();
    config
}

/// Long timeouts, for tests of what is sent rather than how fast, on a loaded machine.
pub(crate) fn long_timeouts(config: &mut Config) {
    config.redis.timeout_ms = 10_000;
    config.server.request_timeout_ms = 60_000;
    config.shed.wait_ms = 10_000;
    config.upstream.wait_ms = 10_000;
    config.upstream.connect_ms = 10_000;
    config.upstream.query_ms = 20_000;
    config.upstream.deadline_ms = 30_000;
}

/// A replica, usually in this process, and a client for it.
pub(crate) struct Replica {
    running: Option<Running>,
    client: reqwest::Client,
    /// The base URL, which ends in `/v1`.
    pub(crate) base: String,
    pub(crate) ops: String,
    /// The control listener, if it is enabled.
    pub(crate) control: Option<String>,
}

impl Replica {
    /// A replica over the Postgres that the configuration names.
    pub(crate) async fn start(config: &Config) -> Self {
        let install = config.registry.install_command.clone();
        let upstream = Postgres::new(&config.upstream, install).unwrap();
        Self::with_upstream(config, Arc::new(upstream)).await
    }

    /// A replica over any upstream.
    pub(crate) async fn with_upstream(config: &Config, upstream: Arc<dyn Upstream>) -> Self {
        let running = app::start(config, upstream).await.unwrap();
        let (base, ops) = (running.base_url(), running.ops_url());
        let control = running.control_url();
        Self { running: Some(running), client: reqwest::Client::new(), base, ops, control }
    }

    /// A replica in another process.
    pub(crate) fn external(base: &str, ops: &str, control: Option<&str>) -> Self {
        let (base, ops) = (base.to_owned(), ops.to_owned());
        let control = control.map(str::to_owned);
        Self { running: None, client: reqwest::Client::new(), base, ops, control }
    }

    /// GET of a path below `/v1`, with or without a key.
    pub(crate) async fn get(&self, path: &str, key: Option<&str>) -> Response {
        let headers = key.map(|key| ("X-API-Key", key));
        self.send(Method::GET, &format!("{}{path}", self.base), headers.as_slice()).await
    }

    /// Any request, by its whole URL.
    pub(crate) async fn send(
        &self,
        method: Method,
        url: &str,
        headers: &[(&str, &str)],
    ) -> Response {
        let mut request = self.client.request(method, url);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        Response::of(request.send().await.unwrap()).await
    }

    /// GET on the operations listener.
    pub(crate) async fn ops(&self, path: &str) -> Response {
        self.send(Method::GET, &format!("{}{path}", self.ops), &[]).await
    }

    /// The value of a metric with exactly these labels, such as `name{side="write"}`.
    pub(crate) async fn metric(&self, series: &str) -> Option<f64> {
        let text = self.ops("/metrics").await.text;
        let line = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        line.map(|value| value.parse().unwrap())
    }

    /// Ends the replica and waits until it has ended.
    pub(crate) async fn shutdown(mut self) {
        self.running.take().unwrap().shutdown().await;
    }
}

/// An HTTP response, read to its end.
#[derive(Debug, Clone)]
pub(crate) struct Response {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
}

impl Response {
    pub(crate) async fn of(response: reqwest::Response) -> Self {
        let (status, headers) = (response.status(), response.headers().clone());
        Self { status, headers, text: response.text().await.unwrap() }
    }

    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// A header's value; empty if the header is missing.
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    /// The error code; panics unless the body has exactly the documented fields.
    #[track_caller]
    pub(crate) fn code(&self) -> String {
        let body = self.json();
        let fields = body.as_object().unwrap_or_else(|| panic!("no object: {self:?}"));
        assert_eq!(fields.len(), 2, "{self:?}");
        assert!(fields["error"].as_str().is_some_and(|text| !text.is_empty()), "{self:?}");
        assert!(self.header("content-type").starts_with("application/json"), "{self:?}");
        fields["code"].as_str().unwrap().to_owned()
    }

    /// Checks status and code of an error.
    #[track_caller]
    pub(crate) fn assert_refused(&self, status: u16, code: &str) {
        assert_eq!((self.status.as_u16(), self.code().as_str()), (status, code), "{self:?}");
    }
}

/// A database with the default schema and no genes.
pub(crate) async fn migrated(server: &PostgresServer) -> Database<'_> {
    server.create_database_like("migrated", |url| async move { migrate(&url).await }).await
}

/// A database with the sample registry.
pub(crate) async fn sample(server: &PostgresServer) -> Database<'_> {
    let fill = |url: String| async move {
        migrate(&url).await;
        load(&url, Catalogue::sample().unwrap().genes).await;
    };
    server.create_database_like("sample", fill).await
}

async fn migrate(url: &str) {
    migrate::migrate(&mut super::postgres::connect(url).await).await.unwrap();
}

/// Fills an empty registry.
pub(crate) async fn load(url: &str, genes: Vec<CatalogueGene>) {
    let mut client = super::postgres::connect(url).await;
    super::database::seed(&mut client, genes.into_iter(), Timestamp::now()).await.unwrap();
}

impl Database<'_> {
    /// Stores a new key with a limit of `limit` requests a minute; returns its plain text.
    pub(crate) async fn new_key(&self, limit: u32) -> String {
        self.new_key_with(|key| key.spec.rate_limit_per_minute = limit).await
    }

    /// Stores a new key, modified by `change`.
    pub(crate) async fn new_key_with(&self, change: impl FnOnce(&mut NewKey)) -> String {
        new_key_in(&self.url(), change).await
    }
}

/// The default properties of a test's key: scope read, a million requests a minute.
pub(crate) fn new_key() -> NewKey {
    let spec = KeySpec {
        name: "test".to_owned(),
        scopes: vec!["read".to_owned()],
        rate_limit_per_minute: 1_000_000,
        expires_at: None,
    };
    NewKey { owner: "team-test".to_owned(), spec }
}

/// Stores a new key, modified by `change`, in the database with this URL (its owner's).
pub(crate) async fn new_key_in(url: &str, change: impl FnOnce(&mut NewKey)) -> String {
    let mut new = new_key();
    change(&mut new);
    let key = ApiKey::generate().unwrap();
    insert_key(&super::postgres::connect(url).await, &key, &new).await.unwrap();
    key.expose().to_owned()
}

/// `count` replicas that share the sample registry, a Redis and a key prefix.
pub(crate) struct Fleet<'a> {
    pub(crate) database: Database<'a>,
    pub(crate) prefix: String,
    pub(crate) config: Config,
    pub(crate) replicas: Vec<Replica>,
}

impl<'a> Fleet<'a> {
    pub(crate) async fn start(
        count: u32,
        postgres: &'a PostgresServer,
        redis: &RedisServer,
    ) -> Self {
        Self::start_with(count, postgres, redis, |_| {}).await
    }

    /// A fleet with a configuration modified by `change`. Before that, the timeouts of the database
    /// are longer than the defaults, as a loaded machine may need.
    pub(crate) async fn start_with(
        count: u32,
        postgres: &'a PostgresServer,
        redis: &RedisServer,
        change: impl FnOnce(&mut Config),
    ) -> Self {
        let database = sample(postgres).await;
        let prefix = RedisServer::new_prefix();
        let redis_url = redis.url();
        let mut config = config(&database.url_as(READER), Some((&redis_url, &prefix)));
        config.rate_limit.replicas = count;
        config.server.request_timeout_ms = 30_000;
        config.shed.wait_ms = 5_000;
        config.upstream.wait_ms = 5_000;
        config.upstream.connect_ms = 5_000;
        config.upstream.query_ms = 5_000;
        config.upstream.deadline_ms = 10_000;
        change(&mut config);
        let mut fleet = Self { database, prefix, config, replicas: Vec::new() };
        fleet.grow(count).await;
        fleet
    }

    /// Starts further replicas.
    pub(crate) async fn grow(&mut self, count: u32) {
        for _ in 0..count {
            self.replicas.push(Replica::start(&self.config).await);
        }
    }
}
