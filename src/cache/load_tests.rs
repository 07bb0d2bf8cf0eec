//! What a load that found nothing returns.

use tokio::time::timeout;

use super::super::entry::ResponseBody;
use super::*;
use crate::config::{AgesConfig, CacheConfig};
use crate::registry::Timestamp;
use crate::upstream::{Embedded, ReadStamp, UpstreamClient};

const SECOND: Duration = Duration::from_secs(1);

/// A loader whose entries are fresh for as long as `fresh_s` says, and then served on errors only.
fn loader(fresh_s: u64) -> Loader {
    let ages = AgesConfig { fresh_s, stale_s: 0, if_error_s: 60 };
    let config = CacheConfig {
        local_max_bytes: 1 << 20,
        shared_max_entry_bytes: 0,
        not_found_s: 60,
        search: ages,
        phenotype: ages,
        insights: ages,
    };
    let upstream = UpstreamClient::new(Arc::new(Embedded::new(vec![], vec![], String::new())));
    let metrics = Arc::new(Metrics::default());
    Loader {
        policy: ServePolicy::new(&config, upstream),
        shared: None,
        limiter: ReadLimiter::new(1, 1, SECOND, SECOND, metrics.shed()),
        max_wait: SECOND,
        metrics,
        loads: SingleFlight::new("test_loads"),
        counts: SingleFlight::new("test_counts"),
        refreshes: SingleFlight::new("test_refreshes"),
        refresh_backoff: Cache::new(1),
    }
}

/// What a read that found nothing returns where an entry is known.
async fn result(fresh_s: u64, seen: ReadStamp, known: ReadStamp) -> EntryResult {
    let (loader, request) =
        (Arc::new(loader(fresh_s)), Request::Phenotype(uuid::Uuid::nil().into()));
    let body = ResponseBody { body: "{}".into(), link: "".into() };
    loader.policy.local.put(&request, &Arc::new(Entry::new(&request, body, known)));
    let kept = loader.policy.local.put_absent(&request, seen);
    let result = loader.decided(&request, kept).await;
    let is_kept = loader.policy.local.entries.contains_key(&request);
    assert_eq!(is_kept, result.is_ok());
    result
}

#[tokio::test]
async fn nothing_is_found_only_where_no_later_entry_is_known() {
    let seen = |transactions: u64| {
        let snapshot = format!("{transactions}:{transactions}:").parse().ok();
        ReadStamp::new(Timestamp::UNIX_EPOCH, snapshot)
    };
    assert!(matches!(result(60, seen(20), seen(19)).await, Err(ReadError::NotFound)));
    assert!(matches!(result(60, seen(20), seen(21)).await, Ok((_, Source::Local))));
}

#[tokio::test]
async fn another_read_decides_if_a_later_entry_may_not_be_served() {
    let seen = || ReadStamp::new(Timestamp::UNIX_EPOCH, None);
    let (before, later) = (seen(), seen());
    let decided = timeout(SECOND, result(0, before, later)).await.expect("one read is enough");
    assert!(matches!(decided, Err(ReadError::NotFound)), "the registry has no gene");
}
