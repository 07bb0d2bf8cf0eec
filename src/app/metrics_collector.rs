//! Reads the metrics that are not counted as they change, such as pool sizes, when `/metrics` is
//! requested. Every value comes from memory.

use std::sync::Arc;

use super::listeners::ListenerPeers;
use crate::cache::ReadThrough;
use crate::keys::Authenticator;
use crate::ops::{Exposition, Health};
use crate::redis::{AccessMode, RedisPool};
use crate::upstream::UpstreamClient;

/// The sources of these metrics.
pub(super) struct MetricsCollector {
    pub(super) health: Arc<Health>,
    pub(super) upstream: Arc<UpstreamClient>,
    pub(super) reads: ReadThrough,
    pub(super) authenticator: Arc<Authenticator>,
    /// The pool for the cache, and the one for limits.
    pub(super) redis: Option<[RedisPool; 2]>,
    pub(super) peers: ListenerPeers,
}

impl MetricsCollector {
    pub(super) fn collect(&self, out: &mut Exposition) {
        out.flag("gene_registry_ready", &[], self.health.is_ready());
        for (listener, refused) in self.peers.refused() {
            let labels = [("listener", listener)];
            out.sample("gene_registry_connections_refused_total", &labels, refused as f64);
        }
        self.stores(out);
        self.pools(out);
        self.change_log(out);
        self.memory(out);
        let tasks = tokio::runtime::Handle::try_current()
            .map_or(0, |runtime| runtime.metrics().num_alive_tasks());
        out.sample("gene_registry_tasks", &[], tasks as f64);
    }

    fn stores(&self, out: &mut Exposition) {
        let in_use = self.upstream.is_settled() && self.upstream.is_in_use();
        out.flag("gene_registry_upstream_in_use", &[], in_use);
        self.standbys(out);
        let redis = self.redis.as_ref().map(|[pool, _]| pool);
        let modes = [("read", AccessMode::Read), ("write", AccessMode::Write)];
        for (word, mode) in modes.into_iter().take_while(|_| redis.is_some()) {
            let in_use = redis.is_some_and(|pool| pool.is_fully_available(mode));
            out.flag("gene_registry_redis_in_use", &[("side", word)], in_use);
        }
        let open_count = |mode| redis.map_or(0, |pool| pool.open_count(mode));
        for (store, count) in [
            ("postgres", self.upstream.open_count()),
            ("redis_read", open_count(AccessMode::Read)),
            ("redis_write", open_count(AccessMode::Write)),
        ] {
            let labels = [("store", store)];
            out.sample("gene_registry_breaker_openings_total", &labels, count as f64);
        }
    }

    fn standbys(&self, out: &mut Exposition) {
        let standbys = self.upstream.standby_states();
        if !standbys.is_empty() {
            let in_use = self.upstream.is_primary_in_use();
            out.flag("gene_registry_primary_in_use", &[], in_use);
        }
        let numbered =
            || standbys.iter().enumerate().map(|(index, state)| ((index + 1).to_string(), state));
        for (number, state) in numbered() {
            out.flag("gene_registry_standby_in_use", &[("standby", &number)], state.in_use);
        }
        for (number, state) in numbered() {
            if let Some(lag) = state.lag {
                let labels = [("standby", number.as_str())];
                out.sample("gene_registry_standby_lag_seconds", &labels, lag.as_secs_f64());
            }
        }
        for (number, state) in numbered() {
            for (result, count) in
                [("answered", state.answered), ("behind", state.behind), ("failed", state.failed)]
            {
                let labels = [("standby", number.as_str()), ("result", result)];
                out.sample("gene_registry_standby_reads_total", &labels, count as f64);
            }
        }
        let switches = self.upstream.timeline_switches();
        out.sample("gene_registry_timeline_switches_total", &[], switches as f64);
    }

    fn pools(&self, out: &mut Exposition) {
        let mut pools = self.upstream.pools();
        if let Some([cache, limits]) = &self.redis {
            pools.extend([("redis", cache.state()), ("redis_limits", limits.state())]);
        }
        for (pool, state) in &pools {
            let in_use = state.size.saturating_sub(state.idle);
            for (word, count) in [("in_use", in_use), ("idle", state.idle)] {
                let labels = [("pool", *pool), ("state", word)];
                out.sample("gene_registry_pool_connections", &labels, count as f64);
            }
        }
        for (pool, state) in &pools {
            let labels = [("pool", *pool)];
            out.sample("gene_registry_pool_max_connections", &labels, state.max as f64);
        }
        for (pool, state) in &pools {
            out.sample("gene_registry_pool_waiting", &[("pool", *pool)], state.waiting as f64);
        }
    }

    fn change_log(&self, out: &mut Exposition) {
        let polls = self.upstream.polls();
        out.sample("gene_registry_change_log_age_seconds", &[], polls.age.as_secs_f64());
        for (result, count) in [("ok", polls.good), ("failed", polls.failed)] {
            let labels = [("result", result)];
            out.sample("gene_registry_change_log_polls_total", &labels, count as f64);
        }
        out.sample("gene_registry_change_log_changes_total", &[], polls.changes as f64);
        out.sample("gene_registry_broken_rows", &[], self.upstream.broken_rows() as f64);
    }

    fn memory(&self, out: &mut Exposition) {
        let stats = self.reads.stats();
        out.sample("gene_registry_local_cache_bytes", &[], stats.bytes as f64);
        out.sample("gene_registry_local_cache_max_bytes", &[], stats.max_bytes as f64);
        out.sample("gene_registry_local_cache_entries", &[], stats.entries as f64);
        let (known, unknown) = self.authenticator.cached_counts();
        for (word, count) in [("yes", known), ("no", unknown)] {
            out.sample("gene_registry_key_records", &[("known", word)], count as f64);
        }
    }
}
