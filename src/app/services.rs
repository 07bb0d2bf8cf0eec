//! The objects that the listeners and the background tasks share.

use std::sync::Arc;
use std::time::Duration;

use super::listeners::ListenerPeers;
use super::redis::Redis;
use crate::api::{AccessControl, Document, Observability, Pages, PublicApi, TrustedProxies};
use crate::cache::{ReadThrough, SharedCache};
use crate::config::Config;
use crate::keys::{Authenticator, UsageCounts};
use crate::ops::{Dependencies, Dependency, Health, Metrics, Traces};
use crate::redis::AccessMode;
use crate::upstream::{Upstream, UpstreamClient};

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
        })
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
            trusted_proxies,
            health: Arc::clone(&self.health),
            dependencies: Arc::new(move || services.dependencies()),
        };
        let observability = Observability { metrics: Arc::clone(&self.metrics), traces };
        PublicApi::new(self.reads.clone(), access_control, pages, &config.server, observability)
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
            redis_read: redis_state(AccessMode::Read),
            redis_write: redis_state(AccessMode::Write),
        }
    }
}
