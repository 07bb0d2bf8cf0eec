//! A change of an API key applies on every replica within two seconds, with or without Redis.

use std::time::Duration;

use futures_util::future::join_all;
use gene_registry::config::Config;
use gene_registry::keys::{ApiKey, insert_key};
use gene_registry::registry::Timestamp;
use tokio::time::Instant;

use super::{REPLICAS, VISIBLE_WITHIN, always_fresh};
use crate::support::binary::ReplicaProcess;
use crate::support::fake_clock::FakeClock;
use crate::support::need_own_servers;
use crate::support::postgres::PostgresServer;
use crate::support::proxy::{FaultProxy, Mode};
use crate::support::redis::RedisServer;
use crate::support::replica::{Fleet, READER, new_key, sample};
use crate::support::traffic::routes;
use crate::support::wait::{eventually, visible_within};

const PATH: &str = "/genes";
const TIMEOUT: Duration = Duration::from_secs(10);

/// A change of the key, then the expected status and rate limit of its responses.
const CHANGES: &[(&str, u16, &str)] = &[
    ("revoked_at = now()", 401, ""),
    ("revoked_at = null", 200, "1000000"),
    ("expires_at = now()", 401, ""),
    ("expires_at = now() + interval '1 day'", 200, "1000000"),
    ("scopes = '{write}'", 401, ""),
    ("scopes = '{write,read}'", 200, "1000000"),
    ("rate_limit_per_minute = 700000", 200, "700000"),
    ("rate_limit_per_minute = 0", 429, "0"),
    ("rate_limit_per_minute = 1000000", 200, "1000000"),
];

/// Fails if a replica treats the key differently in a request sent later than two seconds from now.
async fn assert_key_status(fleet: &Fleet<'_>, key: &str, status: u16, limit: &str, shares: bool) {
    let committed = Instant::now();
    let each = fleet.replicas.iter().map(|replica| async move {
        let what = format!("a replica answers {status} with limit {limit:?}");
        visible_within(committed, VISIBLE_WITHIN, &what, || async {
            let response = replica.get(PATH, Some(key)).await;
            let named = response.header("x-ratelimit-limit");
            // Without Redis a replica may report its share instead.
            let is_right = named == limit || (shares && !named.is_empty());
            let otherwise = || Err(format!("{} with limit {named:?}", response.status));
            if response.status == status && is_right { Ok(()) } else { otherwise() }
        })
        .await;
    });
    join_all(each).await;
}

/// A long timeout of Redis: the tests measure when changes apply, not when Redis is given up.
fn long_timeouts(config: &mut Config) {
    always_fresh(config);
    config.redis.timeout_ms = 5_000;
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_of_a_key_apply_on_every_replica_with_and_without_redis() {
    need_own_servers!();
    let (postgres, redis) = (PostgresServer::shared().await, RedisServer::start(&[]).await);
    let fleet = Fleet::start_with(REPLICAS, postgres, &redis, long_timeouts).await;
    let client = fleet.database.connect().await;
    for without_redis in [false, true] {
        let key = fleet.database.new_key(1_000_000).await;
        let prefix = key.parse::<ApiKey>().unwrap().prefix().to_owned();
        for replica in &fleet.replicas {
            assert_eq!(replica.get(PATH, Some(&key)).await.status, 200);
        }
        if without_redis {
            redis.kill().await;
        }
        for (set, status, limit) in CHANGES {
            let sql = format!("update registry.api_key set {set} where prefix = $1");
            assert_eq!(client.execute(&sql, &[&prefix]).await.unwrap(), 1);
            assert_key_status(&fleet, &key, *status, limit, without_redis).await;
        }
        let sql = "delete from registry.api_key where prefix = $1";
        client.execute(sql, &[&prefix]).await.unwrap();
        assert_key_status(&fleet, &key, 401, "", false).await;

        let unknown = ApiKey::generate().unwrap();
        for _ in 0..2 {
            for replica in &fleet.replicas {
                let response = replica.get(PATH, Some(unknown.expose())).await;
                response.assert_refused(401, "UNAUTHORIZED");
            }
        }
        insert_key(&client, &unknown, &new_key()).await.unwrap();
        assert_key_status(&fleet, unknown.expose(), 200, "1000000", without_redis).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn known_keys_are_accepted_while_postgres_is_unavailable_and_changes_apply_after_it() {
    let (postgres, redis) = (PostgresServer::shared().await, RedisServer::shared().await);
    let proxy = FaultProxy::start(postgres.addr()).await;
    let mut fleet = Fleet::start_with(0, postgres, redis, long_timeouts).await;
    fleet.config.upstream.url = Some(proxy.url(&fleet.database.url_as(READER)).into());
    fleet.grow(REPLICAS).await;
    let [kept, revoked] =
        [fleet.database.new_key(1_000_000).await, fleet.database.new_key(1_000_000).await];
    let paths = routes(&fleet.database).await;
    for replica in &fleet.replicas {
        for (key, path) in
            [&kept, &revoked].iter().flat_map(|key| paths.iter().map(move |p| (key, p)))
        {
            assert_eq!(replica.get(path, Some(key)).await.status, 200);
        }
    }

    proxy.set(Mode::Refuse).await;
    let prefix = revoked.parse::<ApiKey>().unwrap().prefix().to_owned();
    let sql = "update registry.api_key set revoked_at = now() where prefix = $1";
    fleet.database.connect().await.execute(sql, &[&prefix]).await.unwrap();
    let begun = Instant::now();
    while begun.elapsed() < VISIBLE_WITHIN {
        for replica in &fleet.replicas {
            for (key, path) in [(&kept, &paths[0]), (&revoked, &paths[1])] {
                let response = replica.get(path, Some(key)).await;
                assert_eq!(response.status, 200, "{response:?}");
            }
        }
    }
    proxy.set(Mode::Pass).await;

    assert_key_status(&fleet, &revoked, 401, "", false).await;
    assert_key_status(&fleet, &kept, 200, "1000000", false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_expires_by_the_databases_clock() {
    let database = sample(PostgresServer::shared().await).await;
    let now = Timestamp::now();
    let ending = async |minutes: i64| {
        let at = now + jiff::SignedDuration::from_mins(minutes);
        database.new_key_with(|key| key.spec.expires_at = Some(at)).await
    };
    let (ended, good) = (ending(-10).await, ending(10).await);
    let database_url = database.url_as(READER);
    for shift in [-3_600, 3_600] {
        let [(preload, library), (variable, path)] = FakeClock::new(shift).env();
        let process = ReplicaProcess::start(&[
            ("DATABASE_URL", &database_url),
            (&preload, &library),
            (&variable, &path),
        ])
        .await;
        eventually(TIMEOUT, "the replica has read the database's clock", || async {
            process.replica.ops("/readyz").await.status == 200
        })
        .await;
        for (key, status) in [(&ended, 401), (&good, 200)] {
            let response = process.replica.get(PATH, Some(key)).await;
            assert_eq!(response.status, status, "{shift}: {response:?}");
        }
    }
}
