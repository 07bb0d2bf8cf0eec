//! The order of cached records, and what a panic in the task that follows changes leaves behind.

use tokio::time::{sleep, timeout};

use super::*;
use crate::registry::{Catalogue, Timestamp};
use crate::upstream::{Embedded, ReadStamp, Snapshot};

fn record(hash: KeyHash) -> ApiKeyRecord {
    ApiKeyRecord {
        hash,
        prefix: "gr_00000000".to_owned(),
        owner: "team-a".to_owned(),
        name: "test".to_owned(),
        scopes: vec!["read".to_owned()],
        rate_limit_per_minute: 30,
        expires_at: None,
        revoked_at: None,
    }
}

/// Records of a registry that has these keys.
fn records(keys: Vec<ApiKeyRecord>) -> Records {
    let empty = Catalogue { genes: Vec::new() };
    let upstream = Embedded::from_catalogue(&empty, Timestamp::now(), keys, String::new());
    Records::new(UpstreamClient::new(Arc::new(upstream)), Arc::default())
}

#[tokio::test]
async fn a_restart_reloads_the_records_that_were_marked_before_it() {
    let records = records(vec![]);
    let hash = KeyHash([1; 32]);
    records.store.put(hash, Some(record(hash)), ReadStamp::new(Timestamp::now(), None));
    assert_eq!(records.store.mark(ChangedKeys::All, 1), [hash]);

    let reloaded = timeout(Duration::from_secs(20), async {
        while records.store.get(&hash).is_some() {
            sleep(Duration::from_millis(1)).await;
        }
    });

    tokio::select! {
        () = records.follow_changes() => panic!("it runs forever"),
        reloaded = reloaded => reloaded.expect("the key is found to be gone"),
    }
}

#[tokio::test]
async fn the_source_of_a_request_with_a_cached_record_is_not_determined() {
    let records = records(vec![]);
    let hash = KeyHash([1; 32]);
    records.store.put(hash, Some(record(hash)), ReadStamp::new(Timestamp::now(), None));
    let found = records.get(&hash, BootInstant::now(), || unreachable!("it has a record")).await;
    assert!(found.is_ok_and(|found| found.hash == hash));
}

#[tokio::test]
async fn records_of_ten_minutes_are_read_again_in_one_statement() {
    let keys: Vec<_> = (0..3).map(|number| record(KeyHash([number; 32]))).collect();
    let records = records(keys.clone());
    for key in &keys {
        let seen = ReadStamp::new(Timestamp::now(), None);
        records.store.put(key.hash, Some(key.clone()), seen);
    }
    let due = || records.store.older_than(REREAD, MAX_REREAD).len();
    assert_eq!(due(), 0);
    BootInstant::skip(REREAD);
    assert_eq!(due(), 3);
    records.reread().await;
    assert_eq!(due(), 0);
}

#[tokio::test]
async fn a_delayed_lookup_does_not_replace_a_record_that_may_show_a_later_state() {
    let records = records(vec![]);
    let hash = KeyHash([1; 32]);
    let stamp = |transactions| {
        let seen = ReadStamp::new(Timestamp::now(), Some(Snapshot::before(transactions)));
        while BootInstant::now() <= seen.began {}
        seen
    };
    let (checkpoint, delayed, later) = (stamp(10), stamp(11), stamp(12));
    // As of a standby, which may show more than the checkpoint in its stamp.
    let of_standby = checkpoint.combined(&later).expect("of one server");
    let revoked = ApiKeyRecord { revoked_at: Some(Timestamp::now()), ..record(hash) };
    records.store.put(hash, Some(revoked.clone()), of_standby);

    let found = records.store.put(hash, Some(record(hash)), delayed);

    assert_eq!(*found.expect("a record").record, revoked, "what is cached, for its caller too");
    let found = records.store.put(hash, Some(record(hash)), stamp(12));
    assert_eq!(*found.expect("a record").record, record(hash));
}
