//! The composition root: turns a validated configuration into a running replica. Nothing else
//! puts the rooms together; tests and commands run this very code.

mod check;
mod key_management;
mod listeners;
mod metrics_collector;
mod shared;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;
use tokio::task::JoinHandle;

use crate::api::{AccessControl, Document, Observability, Pages, PublicApi, TrustedProxies};
use crate::cache::ReadThrough;
use crate::config::Config;
use crate::keys::{Authenticator, UsageWriter};
use crate::net::AuthoritiesError;
use crate::ops::{AskDependencies, Dependencies, Dependency, Health, Metrics, OpsApi};
use crate::ops::{Traces, TracesError};
use crate::redis::{AccessMode, RedisPool, ServersError};
use crate::server::{ReloadOutcome, ServerTls, ServerTlsError, Serving};
use crate::upstream::postgres::SetupError;
use crate::upstream::{Upstream, UpstreamClient};

use listeners::{ListenerPeers, bind, listen, reachable};
use metrics_collector::MetricsCollector;
use shared::{Redis, limiter, redis, shared_cache};

pub use check::load_config;
pub use key_management::KeyManagement;

/// How long a replica waits for the upstream before it calls itself ready all the same.
const READY_TIMEOUT: Duration = Duration::from_secs(10);

/// Between two looks whether the upstream has been reached at the start.
const SETTLED_LOOK: Duration = Duration::from_millis(20);

/// Between two rounds of keeping the metrics small.
const METRICS_ROUND: Duration = Duration::from_secs(5);

/// Why a replica could not start.
#[derive(Debug, Error)]
pub enum StartError {
    /// An address can't be listened on.
    #[error("{key}: cannot listen on {address}: {source}")]
    Bind {
        /// The configuration's key.
        key: &'static str,
        /// Its value.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// Redis can't be used as it is configured.
    #[error(transparent)]
    Redis(#[from] ServersError),
    /// Spans can't be sent there.
    #[error("telemetry.otlp_endpoint: {0}")]
    Traces(#[from] TracesError),
    /// The certificate or its key can't be used.
    #[error("server.tls: {0}")]
    Tls(#[from] ServerTlsError),
    /// The database that keys are written to can't be used as it is configured.
    #[error("{}", keys_database_text(.0))]
    KeysDatabase(SetupError),
    /// The issuer's certificate authorities can't be read.
    #[error("control.oidc.tls_ca_file: {0}")]
    Issuer(#[from] AuthoritiesError),
}

fn keys_database_text(error: &SetupError) -> String {
    match error {
        SetupError::Url(why) => {
            format!("control.database_url: not a valid postgres:// URL: {why}")
        }
        other => other.to_string(),
    }
}

/// A replica that is running.
#[derive(Debug)]
pub struct Running {
    public: Serving,
    ops: Serving,
    control: Option<Serving>,
    usage: Option<UsageWriter>,
    health: Arc<Health>,
    drain: Duration,
    background: Vec<JoinHandle<()>>,
    traces: Traces,
}

impl Running {
    /// Where the API is, with its version: `http://127.0.0.1:8080/v1`.
    pub fn base_url(&self) -> String {
        format!("{}://{}/v1", self.public.scheme, reachable(self.public.address))
    }

    /// Where health and metrics are.
    pub fn ops_url(&self) -> String {
        format!("http://{}", reachable(self.ops.address))
    }

    /// Where keys are managed, if that is on: the listener's address, under which is
    /// `/control/v1`.
    pub fn control_url(&self) -> Option<String> {
        let address = self.control.as_ref()?.address;
        Some(format!("http://{}", reachable(address)))
    }

    /// Ends: readiness fails first, and clients that keep connections are sent elsewhere; then no
    /// new connections; then requests under way finish; then what was gathered is sent.
    pub async fn shutdown(self) {
        self.health.set_draining();
        self.public.drain();
        tokio::time::sleep(self.drain).await;
        self.public.shutdown().await;
        if let Some(control) = self.control {
            control.shutdown().await;
        }
        self.ops.shutdown().await;
        self.background.iter().for_each(JoinHandle::abort);
        if let Some(usage) = self.usage {
            usage.finish().await;
        }
        self.traces.end().await;
    }
}

/// Starts a replica in front of `upstream`, whose keys are managed where the configuration says.
/// It listens when this returns.
///
/// # Errors
/// [`StartError`].
pub async fn start(config: &Config, upstream: Arc<dyn Upstream>) -> Result<Running, StartError> {
    start_with_keys(config, upstream, KeyManagement::configured(config)?).await
}

/// As [`start`], with the keys managed elsewhere.
///
/// # Errors
/// [`StartError`].
pub async fn start_with_keys(
    config: &Config,
    upstream: Arc<dyn Upstream>,
    keys: Option<KeyManagement>,
) -> Result<Running, StartError> {
    // All before anything is served: a start that fails leaves nothing behind.
    let public_socket = bind("server.bind", config.server.bind).await?;
    let ops_socket = bind("ops.bind", config.ops.bind).await?;
    let peers = ListenerPeers::new(&config.server.trusted_proxies);
    let (health, metrics) = (Arc::new(Health::default()), Arc::new(Metrics::default()));
    let control = key_management::control(config, keys.as_ref(), &metrics).await?;
    let redis = redis(config)?;
    let document = Document::new();
    let upstream = UpstreamClient::new(upstream);
    let shared = redis.as_ref().map(|redis| shared_cache(config, redis, &document, &metrics));
    let reads = ReadThrough::new(config, shared, Arc::clone(&upstream), Arc::clone(&metrics));
    let usage = key_management::usage(keys);
    let authenticator = {
        let (upstream, foreign) = (Arc::clone(&upstream), config.keys.accept_foreign);
        let counts = usage.as_ref().map(|(counts, _)| Arc::clone(counts));
        Arc::new(Authenticator::new(upstream, foreign, Arc::clone(&metrics)).counting(counts))
    };
    let look = MetricsCollector {
        health: Arc::clone(&health),
        upstream: Arc::clone(&upstream),
        reads: reads.clone(),
        authenticator: Arc::clone(&authenticator),
        redis: redis.as_ref().map(|redis| [redis.cache.clone(), redis.limits.clone()]),
        peers: peers.clone(),
    };
    let limiter = limiter(config, redis.as_ref(), &metrics);
    let probes = redis.as_ref().map(Redis::run_probes);
    let gate = AccessControl {
        authenticator: Arc::clone(&authenticator),
        limiter,
        timeout: config.server.request_timeout(),
    };
    let dependencies: AskDependencies = {
        let upstream = Arc::clone(&upstream);
        Arc::new(move || dependencies(&upstream, redis.as_ref().map(|redis| &redis.cache)))
    };
    let pages = Pages {
        document,
        public_url: config.server.public_url.clone(),
        trusted_proxies: TrustedProxies::new(config.server.trusted_proxies.clone()),
        health: Arc::clone(&health),
        dependencies: Arc::clone(&dependencies),
    };
    let traces = Traces::new(&config.telemetry)?;
    let watched_by = Observability { metrics: Arc::clone(&metrics), traces: traces.clone() };
    let public = PublicApi::new(reads, gate, pages, watched_by).with_cors(&config.server.cors);
    let tls = tls(config)?;
    let limits = listeners::limits(config);
    let public = listen(public_socket, tls.clone(), peers.public, public, limits)?;
    let ops = OpsApi {
        health: Arc::clone(&health),
        metrics: Arc::clone(&metrics),
        dependencies,
        look: Arc::new(move |out| look.collect(out)),
    };
    let ops = listen(ops_socket, None, peers.ops, ops, listeners::ops_limits(config))?;
    let few = listeners::control_limits(config);
    let control = control.map(|(socket, api)| listen(socket, None, peers.control, api, few));
    let control = control.transpose()?;
    let mut background = spawn_background_tasks(upstream, &health, &metrics, tls);
    background.push(tokio::spawn(async move { authenticator.follow_changes().await }));
    background.extend(probes.map(tokio::spawn));
    let every = config.keys.usage_every();
    let usage = usage.map(|(counts, store)| UsageWriter::start(counts, store, every));
    let drain = config.server.drain();
    Ok(Running { public, ops, control, usage, health, drain, background, traces })
}

/// TLS on the public listener, if it is on.
fn tls(config: &Config) -> Result<Option<ServerTls>, StartError> {
    let tls = &config.server.tls;
    let on = |(cert, key)| ServerTls::new(cert, key, tls.handshake_timeout());
    Ok(tls.files().map(on).transpose()?)
}

/// Keeps the certificate up to date, and says when it ends.
async fn watch(tls: ServerTls, metrics: Arc<Metrics>) {
    metrics.certificate_expires(tls.expires_at());
    let shown = tls.clone();
    tls.watch(|reloaded| {
        metrics.certificate_reloaded(reloaded == ReloadOutcome::Applied);
        metrics.certificate_expires(shown.expires_at());
    })
    .await;
}

fn dependencies(upstream: &UpstreamClient, redis: Option<&RedisPool>) -> Dependencies {
    let of = |up| if up { Dependency::Up } else { Dependency::Down };
    let side = |side| redis.map_or(Dependency::None, |pool| of(pool.is_fully_available(side)));
    let standbys: Vec<_> =
        upstream.standby_states().iter().map(|standby| of(standby.in_use)).collect();
    Dependencies {
        primary: (!standbys.is_empty()).then(|| of(upstream.is_primary_in_use())),
        standbys,
        upstream: of(upstream.is_settled() && upstream.is_in_use()),
        redis_read: side(AccessMode::Read),
        redis_write: side(AccessMode::Write),
    }
}

/// What goes on beside requests, until it is aborted.
fn spawn_background_tasks(
    upstream: Arc<UpstreamClient>,
    health: &Arc<Health>,
    metrics: &Arc<Metrics>,
    tls: Option<ServerTls>,
) -> Vec<JoinHandle<()>> {
    let mut background = vec![
        tokio::spawn(Arc::clone(&upstream).watch()),
        tokio::spawn(await_upstream(upstream, Arc::clone(health))),
        tokio::spawn(run_upkeep(Arc::clone(metrics))),
    ];
    background.extend(tls.map(|tls| tokio::spawn(watch(tls, Arc::clone(metrics)))));
    background
}

/// Ready when the change log has been loaded, so that shared answers can be judged, or has been
/// waited for long enough: a replica without it can still serve.
async fn await_upstream(upstream: Arc<UpstreamClient>, health: Arc<Health>) {
    let settled = async {
        while !upstream.is_settled() {
            tokio::time::sleep(SETTLED_LOOK).await;
        }
    };
    if tokio::time::timeout(READY_TIMEOUT, settled).await.is_err() {
        tracing::warn!("ready without having reached the registry's database");
    }
    health.set_ready();
}

async fn run_upkeep(metrics: Arc<Metrics>) {
    loop {
        tokio::time::sleep(METRICS_ROUND).await;
        metrics.run_upkeep();
    }
}
