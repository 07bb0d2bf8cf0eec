//! Reads the metrics that are not counted as they change, such as pool sizes, when `/metrics` is
//! requested. Every value comes from memory.

use std::iter;

use super::services::Services;
use crate::ops::Exposition;
use crate::redis::AccessMode;
use crate::sync::supervised;

impl Services {
    /// Adds the current values to `out`.
    pub(super) fn collect_metrics(&self, out: &mut Exposition) {
        out.flag("gene_registry_ready", &[], self.health.is_ready());
        for (listener, refused) in self.peers.refused() {
            let labels = [("listener", listener)];
            out.sample("gene_registry_connections_refused_total", &labels, refused as f64);
        }
        self.collect_stores(out);
        self.collect_standbys(out);
        self.collect_pools(out);
        self.collect_change_log(out);
        self.collect_memory(out);
        let tasks = tokio::runtime::Handle::try_current()
            .map_or(0, |runtime| runtime.metrics().num_alive_tasks());
        out.sample("gene_registry_tasks", &[], tasks as f64);
        for (task, count) in supervised::panics() {
            let labels = [("task", task)];
            out.sample("gene_registry_task_panics_total", &labels, count as f64);
        }
    }

    fn collect_stores(&self, out: &mut Exposition) {
        out.flag("gene_registry_upstream_in_use", &[], self.upstream.is_reached());
        let mut open_counts = vec![("postgres", self.upstream.breaker.open_count())];
        for (side, store, mode) in
            [("read", "redis_read", AccessMode::Read), ("write", "redis_write", AccessMode::Write)]
        {
            let pool = self.redis.as_ref().map(|redis| &redis.cache);
            if let Some(pool) = pool {
                let in_use = pool.is_fully_available(mode);
                out.flag("gene_registry_redis_in_use", &[("side", side)], in_use);
            }
            open_counts.push((store, pool.map_or(0, |pool| pool.open_count(mode))));
        }
        if let Some(used) = self.shared_cache.as_ref().and_then(|shared| shared.room.used_ratio()) {
            out.sample("gene_registry_redis_memory_ratio", &[], used);
        }
        for (store, count) in open_counts {
            let labels = [("store", store)];
            out.sample("gene_registry_breaker_openings_total", &labels, count as f64);
        }
    }

    fn collect_standbys(&self, out: &mut Exposition) {
        let standbys = self.upstream.standby_states();
        if !standbys.is_empty() {
            let in_use = self.upstream.is_primary_in_use();
            out.flag("gene_registry_primary_in_use", &[], in_use);
        }
        for (index, state) in standbys.iter().enumerate() {
            let number = (index + 1).to_string();
            let label = ("standby", number.as_str());
            out.flag("gene_registry_standby_in_use", &[label], state.in_use);
            if let Some(lag) = state.lag {
                out.sample("gene_registry_standby_lag_seconds", &[label], lag.as_secs_f64());
            }
            for (result, count) in
                [("answered", state.answered), ("behind", state.behind), ("failed", state.failed)]
            {
                let labels = [label, ("result", result)];
                out.sample("gene_registry_standby_reads_total", &labels, count as f64);
            }
        }
        let switches = self.upstream.log.history().saturating_sub(1);
        out.sample("gene_registry_history_switches_total", &[], switches as f64);
    }

    fn collect_pools(&self, out: &mut Exposition) {
        let mut pools = self.upstream.primary.pools();
        if let Some(redis) = &self.redis {
            for (name, pool) in [
                ("redis", &redis.cache),
                ("redis_publications", &redis.cache.for_large_values()),
                ("redis_limits", &redis.limits),
            ] {
                pools.push((name, pool.state()));
                for (result, count) in iter::zip(["ok", "failed"], pool.round_trips()) {
                    let labels = [("pool", name), ("result", result)];
                    out.sample("gene_registry_redis_round_trips_total", &labels, count as f64);
                }
            }
        }
        for (pool, state) in pools {
            let label = ("pool", pool);
            let in_use = state.size.saturating_sub(state.idle);
            for (word, count) in [("in_use", in_use), ("idle", state.idle)] {
                let labels = [label, ("state", word)];
                out.sample("gene_registry_pool_connections", &labels, count as f64);
            }
            out.sample("gene_registry_pool_max_connections", &[label], state.max as f64);
            out.sample("gene_registry_pool_waiting", &[label], state.waiting as f64);
        }
    }

    fn collect_change_log(&self, out: &mut Exposition) {
        let polls = self.upstream.polls();
        let age = polls.last_success.elapsed();
        out.sample("gene_registry_change_log_age_seconds", &[], age.as_secs_f64());
        for (result, count) in [("ok", polls.succeeded), ("failed", polls.failed)] {
            let labels = [("result", result)];
            out.sample("gene_registry_change_log_polls_total", &labels, count as f64);
        }
        out.sample("gene_registry_change_log_changes_total", &[], polls.changes as f64);
        out.sample("gene_registry_broken_rows", &[], self.reads.broken_rows() as f64);
    }

    fn collect_memory(&self, out: &mut Exposition) {
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
