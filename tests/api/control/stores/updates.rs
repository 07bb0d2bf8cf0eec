//! Changes of the name, the rate limit and the expiry of a key.

use std::time::Duration;

use gene_registry::keys::KeyChange;
use gene_registry::keys::store::{KeyRefusal, ListRange, Status, StoredKey};

use super::{StorePair, assert_near, both, hours, new, prefix, refusal};
use crate::support::database::ReadKey;

#[tokio::test(flavor = "multi_thread")]
async fn only_what_is_given_of_an_active_key_is_changed() {
    for StorePair { name, store, upstream, .. } in both().await {
        let (key, before) = store.create(&new("a", "n", Some(hours(5)))).await.unwrap();
        let update =
            async |owner, change: KeyChange| store.update(owner, &prefix(&key), &change).await;
        let renamed = KeyChange { name: Some("new".to_owned()), ..KeyChange::default() };
        let unknown = refusal(update(Some("b"), renamed.clone()).await);
        assert_eq!(unknown, KeyRefusal::Unknown, "{name}");
        let after = update(Some("a"), renamed).await.unwrap();
        assert_eq!(after, StoredKey { name: "new".to_owned(), ..before.clone() }, "{name}");
        let change = KeyChange { rate_limit_per_minute: Some(9), ..KeyChange::default() };
        let limited = update(None, change).await.unwrap();
        assert_eq!(limited, StoredKey { rate_limit_per_minute: 9, ..after }, "{name}");
        for expires_at in [Some(hours(9)), None, Some(hours(1))] {
            let change = KeyChange { expires_at: Some(expires_at), ..KeyChange::default() };
            let changed = update(Some("a"), change).await.unwrap();
            assert_eq!(changed.expires_at.is_some(), expires_at.is_some(), "{name}");
            if let Some(at) = expires_at {
                assert_near(changed.expires_at, at);
            }
            let record = upstream.api_key(&key.hash()).await.unwrap().value.expect(name);
            assert_eq!((record.rate_limit_per_minute, &*record.name), (9, "new"), "{name}");
            assert_eq!(record.expires_at.is_some(), expires_at.is_some(), "{name}");
        }
        let expired = KeyChange { expires_at: Some(Some(hours(-1))), ..KeyChange::default() };
        assert_eq!(update(None, expired.clone()).await.unwrap().status, Status::Expired);
        assert_eq!(refusal(update(None, expired).await), KeyRefusal::NotActive, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_expiry_also_replaces_the_lifetime_before_a_rotation() {
    for StorePair { name, store, .. } in both().await {
        let old = store.create(&new("a", "n", Some(hours(500)))).await.unwrap().0;
        let rotate =
            async || store.rotate(None, &prefix(&old), Duration::from_secs(3_600)).await.unwrap();
        let first = rotate().await;
        assert_near(first.new.expires_at, hours(500));
        let change = KeyChange { expires_at: Some(Some(hours(7))), ..KeyChange::default() };
        let prolonged = store.update(None, &prefix(&old), &change).await.unwrap();
        assert_near(prolonged.expires_at, hours(7));
        store.revoke(None, &prefix(&first.key)).await.unwrap();
        assert_near(rotate().await.new.expires_at, hours(7));
        assert_eq!(store.list(None, ListRange::ALL).await.unwrap().keys.len(), 3, "{name}");
    }
}
