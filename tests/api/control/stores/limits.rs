//! The limits of the keys of users, in both stores.

use gene_registry::keys::KeyChange;

use super::*;

fn limits(max_keys: u32) -> KeyLimits {
    let scopes = ["read", "x"].map(str::to_owned).into();
    KeyLimits { max_rate_limit: 7, scopes, max_keys }
}

#[track_caller]
fn exceeded<T: std::fmt::Debug>(outcome: Result<T, StoreError>) -> LimitExceeded {
    match refusal(outcome) {
        KeyRefusal::LimitExceeded(exceeded) => exceeded,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_calls_do_not_exceed_the_limits_of_users_together() {
    for pair in both().await {
        let StorePair { name, store, .. } = &pair;
        let limits = limits(20);
        let (alice, bob) = (new("a", "n", None), new("b", "n", None));
        let creates = (0..60).map(|_| store.create_within(Some(&limits), &alice));
        let outcomes = join_all(creates).await;
        let (made, refused): (Vec<_>, Vec<_>) = outcomes.into_iter().partition(Result::is_ok);
        assert_eq!((made.len(), refused.len()), (20, 40), "{name}");
        for outcome in refused {
            assert_eq!(exceeded(outcome), LimitExceeded::Keys { live: 20, max: 20 }, "{name}");
        }
        store.create_within(Some(&limits), &bob).await.expect(name);
        store.create(&alice).await.expect(name);

        // Of concurrent rotations, too. Only those with an overlap add a live key.
        pair.age_keys().await;
        let made: Vec<_> = made.into_iter().map(|made| made.unwrap().0).collect();
        for key in &made[..4] {
            store.revoke(Some("a"), &prefix(key)).await.unwrap();
        }
        let prefixes: Vec<_> = made[4..].iter().map(prefix).collect();
        let rotate =
            |prefix, overlap| store.rotate_within(Some(&limits), Some("a"), prefix, overlap);
        let hour = Duration::from_secs(3_600);
        let rotations = join_all(prefixes[..8].iter().map(|prefix| rotate(prefix, hour))).await;
        let rotated = rotations.iter().filter(|rotation| rotation.is_ok()).count();
        assert_eq!(rotated, 3, "{name}: {rotations:?}");
        for prefix in &prefixes[8..] {
            assert!(matches!(exceeded(rotate(prefix, hour).await), LimitExceeded::Keys { .. }));
            rotate(prefix, Duration::ZERO).await.expect(name);
        }
        let listed = store.list(Some("a"), ListRange::ALL).await.unwrap().keys;
        let live = listed.iter().filter(|key| key.status == Status::Active).count();
        assert_eq!(live, 20, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn users_make_no_more_keys_a_minute_than_they_may_have() {
    for pair in both().await {
        let StorePair { name, store, .. } = &pair;
        let limits = limits(4);
        let create = async |owner| store.create_within(Some(&limits), &new(owner, "n", None)).await;
        let rotate = async |key: &ApiKey, overlap| {
            store.rotate_within(Some(&limits), Some("a"), &prefix(key), overlap).await
        };
        let assert_wait = |exceeded: LimitExceeded| {
            let text = exceeded.to_string();
            let words = ["4", "control.max_keys", "ait a minute", "nothing was changed"];
            assert!(words.iter().all(|word| text.contains(word)), "{name}: {text}");
        };
        // A creation, a replacement and a rotation each make a key.
        let first = create("a").await.expect(name).0;
        store.revoke(Some("a"), &prefix(&first)).await.unwrap();
        let second = create("a").await.expect(name).0;
        let third = rotate(&second, Duration::ZERO).await.expect(name).key;
        let last = rotate(&third, Duration::ZERO).await.expect(name).key;
        for overlap in [Duration::ZERO, Duration::from_secs(9)] {
            assert_wait(exceeded(rotate(&last, overlap).await));
        }
        assert_wait(exceeded(create("a").await));
        create("b").await.expect(name);
        store.create(&new("a", "n", None)).await.expect("operators may");
        store.rotate(None, &prefix(&last), Duration::ZERO).await.expect("operators may");

        // Calls at once do not exceed it together.
        pair.age_keys().await;
        for _ in 0..2 {
            create("a").await.expect(name);
        }
        pair.age_keys().await;
        let live = async || -> Vec<KeyPrefix> {
            let listed = store.list(Some("a"), ListRange::ALL).await.unwrap().keys;
            let live = listed.iter().filter(|key| key.status == Status::Active);
            live.map(|key| key.prefix.parse().unwrap()).collect()
        };
        let at_once = async |prefixes: &[KeyPrefix]| {
            join_all(prefixes.iter().map(|prefix| {
                store.rotate_within(Some(&limits), Some("a"), prefix, Duration::ZERO)
            }))
            .await
        };
        store.create(&new("a", "n", None)).await.expect("operators may");
        let rotated = at_once(&live().await).await;
        let made = rotated.iter().filter(|rotated| rotated.is_ok()).count();
        assert_eq!((rotated.len(), made), (5, 3), "{name}: {rotated:?}");
        for refused in at_once(&live().await).await {
            assert_wait(exceeded(refused));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn users_do_not_multiply_a_key_above_their_limits() {
    let hour = Duration::from_secs(3_600);
    for pair in both().await {
        let StorePair { name, store, .. } = &pair;
        for (max_rate_limit, scope) in [(6, "x"), (7, "y")] {
            let scopes = vec!["read".to_owned(), scope.to_owned()];
            let limits = KeyLimits { max_rate_limit, scopes, max_keys: 9 };
            let old = store.create(&new("a", "n", None)).await.unwrap().0;
            let rotate = async |key: &ApiKey, overlap| {
                store.rotate_within(Some(&limits), Some("a"), &prefix(key), overlap).await
            };
            let assert_refused_for = async |key: &ApiKey, live: &ApiKey| {
                let predecessor = live.prefix().to_owned();
                let refused = exceeded(rotate(key, hour).await);
                assert_eq!(refused, LimitExceeded::Overlap { predecessor }, "{name}");
            };
            let first = rotate(&old, hour).await.expect(name).key;
            assert_refused_for(&first, &old).await;
            // Rotations without an overlap in between change nothing.
            let second = rotate(&first, Duration::ZERO).await.expect(name).key;
            assert_refused_for(&second, &old).await;
            let third = rotate(&second, Duration::ZERO).await.expect(name).key;
            assert_refused_for(&third, &old).await;
            store.revoke(Some("a"), &prefix(&old)).await.unwrap();
            let fourth = rotate(&third, hour).await.expect(name).key;
            assert_refused_for(&fourth, &third).await;
            store.revoke(Some("a"), &prefix(&third)).await.unwrap();
            let fifth = rotate(&fourth, hour).await.expect(name);
            assert_eq!((fifth.new.rate_limit_per_minute, fifth.new.scopes.len()), (7, 2));
            for key in [&fourth, &fifth.key] {
                store.revoke(Some("a"), &prefix(key)).await.unwrap();
            }
            pair.age_keys().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_that_are_refused_wait_for_no_other_call() {
    let [StorePair { store, place: Place::Database(database), .. }, _] = both().await else {
        panic!("Postgres is the first")
    };
    let (limits, hour) = (limits(3), Duration::from_secs(3_600));
    let [old, other, ended] = {
        let mut made = Vec::new();
        for _ in 0..3 {
            made.push(store.create(&new("a", "n", None)).await.unwrap().0);
        }
        <[ApiKey; 3]>::try_from(made).unwrap()
    };
    store.rotate(None, &prefix(&old), hour).await.unwrap();
    store.revoke(None, &prefix(&ended)).await.unwrap();
    // As a call that makes a key within limits holds it until it ends.
    let holder = database.connect().await;
    let lock = "begin; lock table registry.api_key in share row exclusive mode";
    holder.batch_execute(lock).await.unwrap();
    let rotate = async |owner, key: &ApiKey, overlap| {
        refusal(store.rotate_within(Some(&limits), Some(owner), &prefix(key), overlap).await)
    };
    assert_eq!(rotate("b", &old, hour).await, KeyRefusal::Unknown);
    assert_eq!(rotate("a", &ended, hour).await, KeyRefusal::NotActive);
    assert!(matches!(rotate("a", &old, hour).await, KeyRefusal::AlreadyRotated(_)));
    for overlap in [hour, Duration::ZERO] {
        let refused = rotate("a", &other, overlap).await;
        assert!(matches!(refused, KeyRefusal::LimitExceeded(_)), "{refused:?}");
    }
    let created = store.create_within(Some(&limits), &new("a", "n", None)).await;
    assert!(matches!(exceeded(created), LimitExceeded::Keys { .. }));
}

#[tokio::test(flavor = "multi_thread")]
async fn users_do_not_exceed_their_limits_by_changes() {
    for pair in both().await {
        let StorePair { name, store, .. } = &pair;
        let key = store.create(&new("a", "n", Some(hours(5)))).await.unwrap().0;
        let limit =
            |limit| KeyChange { rate_limit_per_minute: Some(limit), ..KeyChange::default() };
        let expiry = |at| KeyChange { expires_at: Some(at), ..KeyChange::default() };
        let update = async |limits: &KeyLimits, change| {
            store.update_within(Some(limits), Some("a"), &prefix(&key), &change).await
        };
        let wide = limits(1);
        let exceeds = exceeded(update(&wide, limit(8)).await);
        assert_eq!(exceeds, LimitExceeded::RateLimit { asked: 8, max: 7 }, "{name}");
        for change in [limit(7), expiry(None), expiry(Some(hours(6)))] {
            update(&wide, change).await.expect(name);
        }
        // The key is above these limits, by its rate limit or by its scope x.
        let low = KeyLimits { max_rate_limit: 6, ..limits(1) };
        let narrow = KeyLimits { scopes: vec!["read".to_owned()], ..limits(1) };
        for (limits, lower, earlier) in [(&low, 6, 4), (&narrow, 5, 3)] {
            for later in [None, Some(hours(7))] {
                exceeded(update(limits, expiry(later)).await);
            }
            let renamed = KeyChange { name: Some("new".to_owned()), ..KeyChange::default() };
            for change in [renamed, expiry(Some(hours(earlier))), limit(lower)] {
                update(limits, change).await.expect(name);
            }
        }
        let both = KeyChange { expires_at: Some(None), ..limit(3) };
        exceeded(update(&narrow, both.clone()).await);
        update(&wide, both).await.expect(name);
    }
}
