//! What a load that found nothing returns.

use super::super::entry::ResponseBody;
use super::*;
use crate::config::{AgesConfig, CacheConfig};
use crate::registry::Timestamp;
use crate::upstream::{Embedded, UpstreamClient};

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

#[test]
fn nothing_is_found_only_where_no_later_entry_is_known() {
    let request = Request::Phenotype(uuid::Uuid::nil().into());
    let seen = |transactions: u64| {
        let snapshot = format!("{transactions}:{transactions}:").parse().ok();
        ReadStamp::new(Timestamp::UNIX_EPOCH, snapshot)
    };
    let result = |fresh_s, known: u64| {
        let loader = loader(fresh_s);
        let body = ResponseBody { body: "{}".into(), link: "".into() };
        let entry = Arc::new(Entry::new(&request, body, seen(known)));
        loader.policy.local.put(&request, &entry);
        loader.found_nothing(&request, seen(20))
    };
    assert!(matches!(result(60, 19), Err(ReadError::NotFound)));
    assert!(matches!(result(60, 21), Ok((_, Source::Local))));
    let not_servable = result(0, 21);
    assert!(matches!(not_servable, Err(ReadError::Overloaded)), "the gene may exist");
}
