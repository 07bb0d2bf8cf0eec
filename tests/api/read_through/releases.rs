//! Releases with different response schemas beside each other on one Redis: neither reads the
//! entries of the other.

use std::sync::Arc;

use gene_registry::cache::{ReadThrough, RedisRoom, SharedCache, Source};
use gene_registry::config::LoadedConfig;
use gene_registry::ops::Metrics;
use gene_registry::redis::{RedisKeys, RedisPool};
use gene_registry::registry::{GeneSearch, Request};
use gene_registry::upstream::{ChangePoller, Postgres, UpstreamClient};
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

use super::TIMEOUT;
use crate::support::postgres::PostgresServer;
use crate::support::probe::Probe;
use crate::support::redis::RedisServer;
use crate::support::replica::{READER, config, sample};
use crate::support::wait::eventually;

/// A read path alone, of a release with this schema fingerprint.
struct Release {
    reads: ReadThrough,
    _watching: AbortOnDropHandle<()>,
}

async fn release(probe: &Arc<Probe>, prefix: &str, schema: &str) -> Release {
    let mut config = LoadedConfig::read(None).unwrap().config;
    config.upstream.deadline_ms = 20_000;
    let (redis, metrics) = (RedisServer::shared().await, Arc::new(Metrics::default()));
    let timeout = std::time::Duration::from_secs(5);
    let pool = RedisPool::new(redis.servers(), 4, timeout);
    let keys = RedisKeys::new(prefix);
    let watched = UpstreamClient::new(Arc::clone(probe) as _);
    let shared = SharedCache {
        small: pool.clone(),
        large: pool.for_large_values(),
        publications: TaskTracker::new(),
        keys,
        schema: schema.to_owned(),
        max_entry_bytes: 1 << 20,
        room: RedisRoom::new(1 << 30, 1),
        lease_ttl: std::time::Duration::from_secs(5),
        upstream: Arc::clone(&watched),
        metrics: Arc::clone(&metrics),
    };
    let watching = tokio::spawn(ChangePoller::new(Arc::clone(&watched)).run());
    eventually(TIMEOUT, "the change log is loaded", || async { watched.log.is_settled() }).await;
    let reads = ReadThrough::new(&config, Some(Arc::new(shared)), watched, metrics);
    Release { reads, _watching: AbortOnDropHandle::new(watching) }
}

#[tokio::test(flavor = "multi_thread")]
async fn releases_with_different_schemas_do_not_share_entries() {
    let database = sample(PostgresServer::shared().await).await;
    let upstream = config(&database.url_as(READER), None).upstream;
    let probe = Probe::new(Postgres::new(&upstream, "install {id}".to_owned()).unwrap());
    let (redis, prefix) = (RedisServer::shared().await, RedisServer::new_prefix());
    let request = Request::Search(GeneSearch::default());

    // Two replicas of the old release, two of the new one, and one of the old one again.
    let mut sources = Vec::new();
    for schema in ["0a0a0a0a0a0a", "0a0a0a0a0a0a", "0b0b0b0b0b0b", "0b0b0b0b0b0b", "0a0a0a0a0a0a"] {
        let release = release(&probe, &prefix, schema).await;
        sources.push(release.reads.get(&request).await.unwrap().source);
    }

    let read = Source::Upstream { collapsed: false };
    assert_eq!(sources, [read, Source::Shared, read, Source::Shared, Source::Shared]);
    assert_eq!(probe.reads(), 2);
    redis.published(&prefix).await;
    let keys = redis.keys(&format!("{prefix}:entry")).await;
    assert_eq!(keys.len(), 2, "{keys:?}");
    for (key, schema) in keys.iter().zip(["0a0a0a0a0a0a", "0b0b0b0b0b0b"]) {
        assert!(key.contains(&format!(":{schema}:")), "{key}");
        // The key contains the format too, before the schema.
        let format = key.split(':').nth(2).unwrap();
        assert!(format.parse::<u8>().is_ok(), "{key}");
    }
}

/// An entry of another release under our key: an entry contains the key that it was made for.
#[tokio::test(flavor = "multi_thread")]
async fn an_entry_copied_from_another_release_is_a_miss() {
    let database = sample(PostgresServer::shared().await).await;
    let upstream = config(&database.url_as(READER), None).upstream;
    let probe = Probe::new(Postgres::new(&upstream, "install {id}".to_owned()).unwrap());
    let (redis, prefix) = (RedisServer::shared().await, RedisServer::new_prefix());
    let request = Request::Search(GeneSearch::default());
    release(&probe, &prefix, "0a0a0a0a0a0a").await.reads.get(&request).await.unwrap();
    redis.published(&prefix).await;
    let [old] = redis.keys(&format!("{prefix}:entry")).await.try_into().unwrap();
    let new = old.replace("0a0a0a0a0a0a", "0b0b0b0b0b0b");
    let () = redis.command(&["COPY", &old, &new]).await;

    let served = release(&probe, &prefix, "0b0b0b0b0b0b").await.reads.get(&request).await.unwrap();

    assert_eq!(served.source, Source::Upstream { collapsed: false });
    redis.published(&prefix).await;
    let again = release(&probe, &prefix, "0b0b0b0b0b0b").await.reads.get(&request).await.unwrap();
    assert_eq!(again.source, Source::Shared);
}
