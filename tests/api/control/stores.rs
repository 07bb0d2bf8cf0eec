//! Both stores of keys behave alike: Postgres, and the in-memory one of `demo`.

mod limits;
mod updates;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use gene_registry::keys::store::{
    KeyRefusal, KeyRotation, ListRange, Status, StoreError, StoredKey,
};
use gene_registry::keys::{
    ApiKey, KeyLimits, KeyPrefix, KeySpec, KeyStore, LimitExceeded, MemoryKeys, NewKey,
    PostgresKeys, Usage,
};
use gene_registry::registry::{KeyHash, Timestamp};
use gene_registry::upstream::{Embedded, EmbeddedKeys, Upstream};

use crate::support::control::KEYS_ROLE;
use crate::support::database::{Database, ReadKey};
use crate::support::postgres::PostgresServer;
use crate::support::replica::{READER, config, long_timeouts, migrated};

/// A store, and the upstream that reads what it writes.
struct StorePair {
    name: &'static str,
    store: Arc<dyn KeyStore>,
    upstream: Arc<dyn Upstream>,
    place: Place,
}

/// Where a store has its keys.
enum Place {
    Database(Database<'static>),
    Memory(Arc<EmbeddedKeys>),
}

impl StorePair {
    /// Makes all keys two minutes older.
    async fn age_keys(&self) {
        match &self.place {
            Place::Database(database) => {
                let sql = "update registry.api_key set created_at = created_at - interval '2 min'";
                database.connect().await.batch_execute(sql).await.unwrap();
            }
            Place::Memory(keys) => keys.change(|keys| {
                for key in keys.values_mut() {
                    key.created_at -= jiff::SignedDuration::from_mins(2);
                }
                (vec![], ())
            }),
        }
    }
}

async fn both() -> [StorePair; 2] {
    let database = migrated(PostgresServer::shared().await).await;
    let upstream_config = |role: &str| {
        let mut config = config(&database.url_as(role), None);
        long_timeouts(&mut config);
        config.upstream
    };
    let reader = gene_registry::upstream::Postgres::new(&upstream_config(READER), String::new());
    let store = PostgresKeys::new(&upstream_config(KEYS_ROLE)).unwrap();
    let postgres = StorePair {
        name: "postgres",
        store: Arc::new(store),
        upstream: Arc::new(reader.unwrap()),
        place: Place::Database(database),
    };
    let embedded = Embedded::new(vec![], vec![], String::new());
    let store = Arc::new(MemoryKeys::new(embedded.keys()));
    let place = Place::Memory(embedded.keys());
    let memory = StorePair { name: "memory", store, upstream: Arc::new(embedded), place };
    [postgres, memory]
}

fn new(owner: &str, name: &str, expires_at: Option<Timestamp>) -> NewKey {
    let spec = KeySpec {
        name: name.to_owned(),
        scopes: vec!["read".to_owned(), "x".to_owned()],
        rate_limit_per_minute: 7,
        expires_at,
    };
    NewKey { owner: owner.to_owned(), spec }
}

fn prefix(key: &ApiKey) -> KeyPrefix {
    key.prefix().parse().unwrap()
}

fn hours(hours: i64) -> Timestamp {
    Timestamp::now() + jiff::SignedDuration::from_hours(hours)
}

#[track_caller]
fn assert_near(a: Option<Timestamp>, b: Timestamp) {
    let apart = a.expect("a time").duration_since(b).abs();
    assert!(apart < jiff::SignedDuration::from_secs(60), "{a:?} {b}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_upstream_reads_what_the_store_writes() {
    for StorePair { name, store, upstream, .. } in both().await {
        let (key, stored) = store.create(&new("a", "n", Some(hours(5)))).await.unwrap();
        let record = upstream.api_key(&key.hash()).await.unwrap().value.expect(name);
        let expected = (stored.prefix.as_str(), "a", "n", 7, Status::Active);
        let limit = u32::try_from(stored.rate_limit_per_minute).unwrap();
        assert_eq!((key.prefix(), &*stored.owner, &*stored.name, limit, stored.status), expected);
        assert_eq!((&record.prefix, &record.scopes), (&stored.prefix, &stored.scopes), "{name}");
        assert_near(record.expires_at, hours(5));
        assert_near(Some(stored.created_at), Timestamp::now());
        store.revoke(Some("a"), &prefix(&key)).await.unwrap();
        let record = upstream.api_key(&key.hash()).await.unwrap().value.unwrap();
        assert_near(record.revoked_at, Timestamp::now());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_are_listed_newest_first_and_in_pages() {
    for StorePair { name, store, .. } in both().await {
        let mut made = Vec::new();
        for number in 0..5 {
            let owner = if number == 2 { "b" } else { "a" };
            made.push(store.create(&new(owner, &number.to_string(), None)).await.unwrap().0);
        }
        let names = |keys: &[StoredKey]| {
            keys.iter().map(|key| key.name.clone()).collect::<Vec<_>>().join("")
        };
        let listed = async |owner, limit, offset| {
            let listed = store.list(owner, ListRange { limit, offset }).await.unwrap();
            (names(&listed.keys), listed.total)
        };
        assert_eq!(listed(None, 100, 0).await, ("43210".to_owned(), 5), "{name}");
        assert_eq!(listed(Some("a"), 2, 1).await, ("31".to_owned(), 4), "{name}");
        assert_eq!(listed(Some("a"), 2, 4).await, (String::new(), 4), "{name}");
        assert_eq!(listed(Some("c"), 2, 0).await, (String::new(), 0), "{name}");
        let all = store.list(Some("b"), ListRange::ALL).await.unwrap();
        assert_eq!(names(&all.keys), "2", "{name}");
    }
}

#[track_caller]
fn refusal<T: std::fmt::Debug>(outcome: Result<T, StoreError>) -> KeyRefusal {
    match outcome {
        Err(StoreError::Refused(refusal)) => refusal,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_owners_one_key_is_revoked_and_only_once() {
    for StorePair { name, store, .. } in both().await {
        let key = store.create(&new("a", "n", None)).await.unwrap().0;
        let unknown = refusal(store.revoke(Some("b"), &prefix(&key)).await);
        assert_eq!(unknown, KeyRefusal::Unknown, "{name}");
        let revoke = async |owner| store.revoke(owner, &prefix(&key)).await.unwrap();
        let first = revoke(Some("a")).await;
        assert_eq!(first.status, Status::Revoked);
        assert_eq!(revoke(None).await, first, "{name}");
        let rotated = store.rotate(Some("a"), &prefix(&key), Duration::ZERO).await;
        assert_eq!(refusal(rotated), KeyRefusal::NotActive, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rotated_key_has_the_same_settings_and_lifetime() {
    for StorePair { name, store, upstream, .. } in both().await {
        let hour = Duration::from_secs(3_600);
        for (end, overlap, new_end, old_end) in [
            (None, hour, None, Some(hours(1))),
            (Some(hours(5)), hour, Some(hours(5)), Some(hours(1))),
            (Some(hours(5)), hour * 9, Some(hours(5)), Some(hours(5))),
            (None, Duration::ZERO, None, Some(Timestamp::now())),
        ] {
            let old = store.create(&new("a", "n", end)).await.unwrap().0;
            let unknown = refusal(store.rotate(Some("b"), &prefix(&old), overlap).await);
            assert_eq!(unknown, KeyRefusal::Unknown, "{name}");
            let rotated = store.rotate(Some("a"), &prefix(&old), overlap).await.unwrap();
            let KeyRotation { key, new, replaced } = rotated;
            assert_eq!((new.prefix.as_str(), &*replaced.prefix), (key.prefix(), old.prefix()));
            let same = |key: &StoredKey| {
                let StoredKey { owner, name, scopes, rate_limit_per_minute, .. } = key.clone();
                (owner, name, scopes, rate_limit_per_minute)
            };
            assert_eq!(same(&new), same(&replaced), "{name}");
            assert_eq!(new.expires_at.is_some(), new_end.is_some(), "{name}");
            if let Some(new_end) = new_end {
                assert_near(new.expires_at, new_end);
            }
            assert_near(replaced.expires_at, old_end.unwrap());
            let ended = overlap.is_zero();
            let status = if ended { Status::Expired } else { Status::Active };
            assert_eq!((new.status, replaced.status), (Status::Active, status), "{name}");
            let record = upstream.api_key(&key.hash()).await.unwrap().value;
            assert_eq!(record.expect(name).prefix, new.prefix);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_has_at_most_one_active_successor_and_keeps_its_first_lifetime() {
    let hour = Duration::from_secs(3_600);
    for StorePair { name, store, .. } in both().await {
        for end in [None, Some(hours(500))] {
            let old = store.create(&new("a", "n", end)).await.unwrap().0;
            let rotate =
                async |key: &ApiKey, overlap| store.rotate(Some("a"), &prefix(key), overlap).await;
            let made = async |key: &ApiKey, overlap| {
                let KeyRotation { key, new, .. } = rotate(key, overlap).await.expect(name);
                assert_eq!(new.expires_at.is_some(), end.is_some(), "{name}");
                if let Some(end) = end {
                    assert_near(new.expires_at, end);
                }
                key
            };
            let refused_for =
                async |key: &ApiKey, by: &ApiKey| match refusal(rotate(key, hour).await) {
                    KeyRefusal::AlreadyRotated(successor) => assert_eq!(
                        (&*successor.prefix, successor.status),
                        (by.prefix(), Status::Active)
                    ),
                    other => panic!("{name}: {other:?}"),
                };
            let first = made(&old, hour).await;
            refused_for(&old, &first).await;
            // The response with the new key was lost: the new key is rotated, and becomes the old
            // key's successor.
            let second = made(&first, Duration::ZERO).await;
            refused_for(&old, &second).await;
            refused_for(&first, &second).await;
            // The successor is revoked: the old key, still active for an hour, can be rotated
            // again.
            store.revoke(Some("a"), &prefix(&second)).await.unwrap();
            assert_eq!(refusal(rotate(&first, hour).await), KeyRefusal::NotActive, "{name}");
            let third = made(&old, hour).await;
            refused_for(&old, &third).await;
            let listed = store.list(Some("a"), ListRange::ALL).await.unwrap().keys;
            let active = listed.iter().filter(|key| key.status == Status::Active);
            let active: Vec<_> = active.map(|key| key.prefix.as_str()).collect();
            assert!(active.contains(&third.prefix()) && active.contains(&old.prefix()), "{name}");
            for key in [old, third] {
                store.revoke(Some("a"), &prefix(&key)).await.unwrap();
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn key_use_accumulates_and_the_latest_time_remains() {
    for StorePair { name, store, .. } in both().await {
        let [one, other] = [
            store.create(&new("a", "one", None)).await.unwrap().0,
            store.create(&new("a", "other", None)).await.unwrap().0,
        ];
        let at = |second| Timestamp::from_second(second).unwrap();
        let used =
            |key: KeyHash, second, requests| Usage { key, last_used_at: at(second), requests };
        let gone = KeyHash([9; 32]);
        for batch in [
            vec![used(one.hash(), 1_000_000, 5), used(gone, 3_000_000, 1)],
            vec![used(other.hash(), 5, 1), used(one.hash(), 2_000_000, 1)],
            vec![used(one.hash(), 1_500_000, 2)],
            vec![],
        ] {
            store.add_usage(&batch).await.unwrap();
        }
        let listed = store.list(None, ListRange::ALL).await.unwrap().keys;
        let found: Vec<_> =
            listed.iter().map(|key| (key.request_count, key.last_used_at)).collect();
        assert_eq!(found, [(1, Some(at(5))), (8, Some(at(2_000_000)))], "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_change_log_has_changes_of_keys_but_not_their_use() {
    use gene_registry::upstream::{Change, ChangeScope, Changes};

    for StorePair { name, store, upstream, .. } in both().await {
        let changed_by = async |since: &_| match upstream.changes(Some(since)).await.unwrap().value
        {
            Changes::These(changes) => {
                let keys = changes.into_iter().filter_map(|Change { scope, .. }| match scope {
                    ChangeScope::Key(hash) => Some(hash),
                    _ => None,
                });
                keys.collect::<Vec<_>>()
            }
            other => panic!("{name}: {other:?}"),
        };
        let present =
            async || upstream.changes(None).await.unwrap().seen.snapshot.expect("a snapshot");
        let begin = present().await;
        let key = store.create(&new("a", "n", None)).await.unwrap().0;
        assert_eq!(changed_by(&begin).await, [key.hash()], "{name}");
        let read = upstream.api_key(&key.hash()).await.unwrap().seen.snapshot.unwrap();
        assert!(changed_by(&read).await.is_empty(), "{name}: it was seen");
        let used = Usage { key: key.hash(), last_used_at: Timestamp::now(), requests: 1 };
        store.add_usage(&[used]).await.unwrap();
        assert!(changed_by(&read).await.is_empty(), "{name}: use is not logged");
        let rotated = store.rotate(None, &prefix(&key), Duration::from_secs(9)).await.unwrap();
        let rotated = rotated.key;
        let changed = changed_by(&read).await;
        assert_eq!(changed.len(), 2, "{name}");
        assert!(changed.contains(&key.hash()) && changed.contains(&rotated.hash()), "{name}");
        let read = present().await;
        store.revoke(None, &prefix(&rotated)).await.unwrap();
        assert_eq!(changed_by(&read).await, [rotated.hash()], "{name}");
    }
}
