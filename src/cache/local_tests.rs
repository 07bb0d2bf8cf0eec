//! The memory of entries and absences, and which of them remain.

use poem::http::HeaderValue;

use super::super::entry::ResponseBody;
use super::*;
use crate::config::AgesConfig;
use crate::registry::{GeneFilter, Timestamp};
use crate::upstream::BootInstant;

fn weight_of(domain: &str, body: &str, link: &str, snapshot: &str) -> u64 {
    let filter = GeneFilter { domain: domain.parse().ok(), fidelity: None };
    let request = Request::Search(GeneSearch { filter, ..GeneSearch::default() });
    let response = ResponseBody {
        body: body.to_owned().into(),
        link: HeaderValue::from_str(link).expect("visible"),
    };
    let snapshot = Some(snapshot.parse().expect("a snapshot"));
    let entry = Entry::new(&request, response, ReadStamp::new(Timestamp::UNIX_EPOCH, snapshot));
    let ages = AgesConfig { fresh_s: 60, stale_s: 0, if_error_s: 60 };
    let cache = cache_with(ages);
    cache.put(&request, &Arc::new(entry));
    cache.stats().bytes
}

fn cache_with(ages: AgesConfig) -> LocalCache {
    LocalCache::new(&CacheConfig {
        local_max_bytes: 1 << 20,
        shared_max_entry_bytes: 0,
        not_found_s: 60,
        search: ages,
        phenotype: ages,
        insights: ages,
    })
}

#[test]
fn a_read_that_found_nothing_removes_only_what_surely_shows_less() {
    let cache = cache_with(AgesConfig { fresh_s: 60, stale_s: 0, if_error_s: 60 });
    let request = Request::Phenotype(uuid::Uuid::nil().into());
    let seen = |xmax: u64, shown_transactions| {
        let snapshot = format!("{xmax}:{xmax}:").parse().ok();
        let mut seen = ReadStamp::new(Timestamp::UNIX_EPOCH, snapshot);
        seen.shown_transactions = shown_transactions;
        BootInstant::skip(Duration::from_secs(1));
        seen
    };
    let between = seen(25, 25);
    let response = ResponseBody { body: "{}".into(), link: HeaderValue::from_static("") };
    let entry = Arc::new(Entry::new(&request, response, seen(20, 20)));
    cache.put(&request, &entry);
    let kept = cache.put_absent(&request, seen(19, 30));
    assert!(kept.is_some_and(|kept| Arc::ptr_eq(&kept, &entry)));
    assert!(cache.not_found.get(&request).is_none());

    assert!(cache.put_absent(&request, seen(21, 30)).is_none());
    assert!(cache.entries.get(&request).is_none());
    let response = ResponseBody { body: "{}".into(), link: HeaderValue::from_static("") };
    let between = Entry::new(&request, response, between);
    assert!(cache.put(&request, &Arc::new(between)).is_none(), "the absence may show more");
}

#[test]
fn an_entry_replaces_only_an_absence_that_surely_shows_less() {
    let cache = cache_with(AgesConfig { fresh_s: 60, stale_s: 0, if_error_s: 60 });
    let id = uuid::Uuid::nil().into();
    for request in [Request::Phenotype(id), Request::Insights("d".parse().expect("a domain"))] {
        let seen = |transactions: u64| {
            BootInstant::skip(Duration::from_secs(1));
            let snapshot = format!("{transactions}:{transactions}:").parse().ok();
            ReadStamp::new(Timestamp::UNIX_EPOCH, snapshot)
        };
        let entry = |seen| {
            let response = ResponseBody { body: "{}".into(), link: HeaderValue::from_static("") };
            Arc::new(Entry::new(&request, response, seen))
        };
        let (earlier, absent) = (entry(seen(20)), seen(21));
        let later = entry(seen(22));
        assert!(cache.put_absent(&request, absent).is_none());
        assert!(cache.put(&request, &earlier).is_none());
        assert!(cache.not_found.get(&request).is_some() && cache.entries.get(&request).is_none());
        assert!(cache.put(&request, &later).is_some_and(|kept| Arc::ptr_eq(&kept, &later)));
        assert!(cache.not_found.get(&request).is_none());
    }
}

#[test]
fn everything_that_a_key_and_an_entry_keep_counts() {
    let text = "x".repeat(200);
    let least = weight_of("d", "", "", "9:9:");
    assert!(weight_of(&text, "", "", "9:9:") >= least + 199, "the key");
    assert!(weight_of("d", &text, "", "9:9:") >= least + 200, "the body");
    assert!(weight_of("d", "", &text, "9:9:") >= least + 200, "the link");
    let running = (9..109).map(|xid: u32| xid.to_string()).collect::<Vec<_>>().join(",");
    assert!(weight_of("d", "", "", &format!("9:109:{running}")) >= least + 800, "the snapshot");
    let compressible = "x".repeat(1024);
    assert!(weight_of("d", &compressible, "", "9:9:") >= least + 2048, "the compressed body");
}
