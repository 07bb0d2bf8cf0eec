//! The objects that the listeners and the background tasks share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio_util::task::TaskTracker;

use super::listeners::ListenerPeers;
use super::redis::Redis;
use crate::api::{
    AccessControl, Document, Observability, Pages, PublicApi, SharedNumbers, TrustedProxies,
};
use crate::cache::{ReadThrough, SharedCache};
use crate::config::Config;
use crate::keys::{Authenticator, UsageCounts};
use crate::ops::{Dependencies, Dependency, Health, Metrics, Traces, error_chain};
use crate::redis::AccessMode;
use crate::registry::DomainName;
use crate::upstream::{Upstream, UpstreamClient, UpstreamError};

/// A change log that was last read longer ago counts as unreadable.
const CHANGE_LOG_MAX_AGE: Duration = Duration::from_secs(5);

/// The shared objects of one replica.
pub(super) struct Services {
    pub(super) health: Arc<Health>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) upstream: Arc<UpstreamClient>,
    pub(super) authenticator: Arc<Authenticator>,
    /// `None` without a configured Redis.
    pub(super) redis: Option<Redis>,
    /// As `redis`.
    pub(super) shared_cache: Option<Arc<SharedCache>>,
    pub(super) reads: ReadThrough,
    pub(super) peers: ListenerPeers,
    document: Document,
    /// What the front page shows without a key.
    pub(super) numbers: SharedNumbers,
    /// The domains whose leaders it shows.
    pub(super) leading_domains: Vec<DomainName>,
    /// Whether the views could be read when they were checked last.
    are_views_readable: AtomicBool,
}

impl Services {
    /// Requests with a valid key are counted in `usage`, if it is given.
    pub(super) fn new(
        config: &Config,
        upstream: Arc<dyn Upstream>,
        redis: Option<Redis>,
        usage: Option<Arc<UsageCounts>>,
        metrics: Arc<Metrics>,
    ) -> Arc<Self> {
        let document = Document::default();
        let upstream = UpstreamClient::new(upstream);
        let shared = redis
            .as_ref()
            .map(|redis| redis.shared_cache(config, &document, &upstream, &metrics))
            .map(Arc::new);
        let reads =
            ReadThrough::new(config, shared.clone(), Arc::clone(&upstream), Arc::clone(&metrics));
        let accept_foreign = config.keys.accept_foreign;
        let authenticator =
            Authenticator::new(Arc::clone(&upstream), accept_foreign, usage, Arc::clone(&metrics));
        Arc::new(Self {
            health: Arc::default(),
            metrics,
            upstream,
            authenticator: Arc::new(authenticator),
            redis,
            shared_cache: shared,
            reads,
            peers: ListenerPeers::new(&config.server.trusted_proxies),
            document,
            numbers: SharedNumbers::default(),
            // The configuration accepts only valid ones.
            leading_domains: config.pages.domains.iter().filter_map(|it| it.parse().ok()).collect(),
            are_views_readable: AtomicBool::new(true),
        })
    }

    /// The tasks that publish results in Redis.
    pub(super) fn publications(&self) -> TaskTracker {
        self.shared_cache.as_ref().map(|shared| shared.publications.clone()).unwrap_or_default()
    }

    /// The handler of the public listener.
    pub(super) fn public_api(self: &Arc<Self>, config: &Config, traces: Traces) -> PublicApi {
        let trusted_proxies = TrustedProxies::new(config.server.trusted_proxies.clone());
        let access_control = AccessControl {
            authenticator: Arc::clone(&self.authenticator),
            trusted_proxies: trusted_proxies.clone(),
            limiter: super::redis::limiter(config, self.redis.as_ref(), &self.metrics),
            timeout: Duration::from_millis(config.server.request_timeout_ms),
        };
        let services = Arc::clone(self);
        let pages = Pages {
            document: self.document.clone(),
            public_url: config.server.public_url.clone(),
            documents_own_address: config.server.documents_own_address,
            trusted_proxies,
            health: Arc::clone(&self.health),
            dependencies: Arc::new(move || services.dependencies()),
            config: config.pages.clone(),
            control_url: config.control.public_url.clone(),
            numbers: self.numbers.clone(),
        };
        let observability = Observability { metrics: Arc::clone(&self.metrics), traces };
        PublicApi::new(self.reads.clone(), access_control, pages, &config.server, observability)
    }

    /// Reads a row of each view. Returns whether they are not known to be unreadable; a database that is
    /// unavailable shows nothing about them.
    pub(super) async fn check_views(&self) -> bool {
        let were_readable = self.are_views_readable.load(Ordering::Relaxed);
        if !self.upstream.is_primary_in_use() {
            return were_readable;
        }
        let error = match self.upstream.primary.check_views().await {
            Ok(()) => None,
            Err(UpstreamError::Failed(cause)) => Some(error_chain(&*cause)),
            Err(_) => return were_readable,
        };
        self.are_views_readable.store(error.is_none(), Ordering::Relaxed);
        match error {
            Some(error) if were_readable => tracing::warn!(
                error,
                "the registry's views cannot be read; gene-registry doctor names the remedies"
            ),
            None if !were_readable => tracing::info!("the registry's views can be read again"),
            _ => {}
        }
        self.are_views_readable.load(Ordering::Relaxed)
    }

    /// The current state of the dependencies, from memory.
    pub(super) fn dependencies(&self) -> Dependencies {
        let state = |up| if up { Dependency::Up } else { Dependency::Down };
        let redis_state = |mode| {
            let redis = self.redis.as_ref();
            redis.map_or(Dependency::None, |redis| state(redis.cache.is_fully_available(mode)))
        };
        let upstream = &self.upstream;
        let standbys: Vec<_> =
            upstream.standby_states().iter().map(|standby| state(standby.in_use)).collect();
        Dependencies {
            primary: (!standbys.is_empty()).then(|| state(upstream.is_primary_in_use())),
            standbys,
            upstream: state(upstream.is_reached()),
            views: state(self.are_views_readable.load(Ordering::Relaxed)),
            change_log: if upstream.log.exists() {
                state(upstream.polls().last_success.elapsed() < CHANGE_LOG_MAX_AGE)
            } else {
                Dependency::None
            },
            redis_read: redis_state(AccessMode::Read),
            redis_write: redis_state(AccessMode::Write),
        }
    }
}
