//! What a load that found nothing returns.

use poem::http::HeaderValue;
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
        broken_rows: BrokenRows::default(),
        refreshes: SingleFlight::new("test_refreshes"),
        refresh_backoff: Cache::new(1),
    }
}

/// What a load returns that finds nothing, where an entry is known that shows this many transactions. The
/// registry shows one.
async fn result(fresh_s: u64, known: u64) -> EntryResult {
    let (loader, request) =
        (Arc::new(loader(fresh_s)), Request::Phenotype(uuid::Uuid::nil().into()));
    let snapshot = format!("{known}:{known}:").parse().ok();
    let body = ResponseBody { body: "{}".into(), link: HeaderValue::from_static("") };
    let seen = ReadStamp::new(Timestamp::UNIX_EPOCH, snapshot);
    loader.policy.local.put(&request, &Arc::new(Entry::new(&request, body, seen)));
    let load = loader.fetch_and_publish(&request, None, None, Priority::Foreground);
    let result = timeout(SECOND, load).await.expect("a bounded number of reads");
    let is_kept = loader.policy.local.entries.contains_key(&request);
    assert_eq!(is_kept, result.is_ok());
    result
}

#[tokio::test]
async fn nothing_is_found_only_where_no_later_entry_is_known() {
    for fresh_s in [60, 0] {
        assert!(matches!(result(fresh_s, 1).await, Err(ReadError::NotFound)));
        // An old one is served, too, since no read shows more.
        assert!(matches!(result(fresh_s, 2).await, Ok((_, Source::Local))));
    }
}
