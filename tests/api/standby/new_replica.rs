//! Replicas that start after a fail-over, or while the primary is unavailable.

use std::time::Duration;

use futures_util::future::join_all;
use gene_registry::config::Config;
use tokio::time::Instant;
use tokio_postgres::Client;

use super::{TIMEOUT, fleet, reads, without_caches};
use crate::currency::restored::TRANSACTIONS;
use crate::currency::{DOMAIN, assert_same, genes_of, paths_of, responses};
use crate::support::fake_clock::FakeClock;
use crate::support::need_own_servers;
use crate::support::postgres::{PostgresServer, SUPERUSER, connect};
use crate::support::proxy::{FaultProxy, Mode};
use crate::support::replica::{Fleet, READER, Replica};
use crate::support::standby::primary;
use crate::support::traffic::uncached_path;
use crate::support::wait::{eventually, visible_within};

const RENAME: &str =
    "update registry.gene set name = $1, description = $1 where id = $2::text::uuid";

/// A few more, of which the standby gets nothing.
const LOST_TRANSACTIONS: &str = "do $$ begin
        for n in 1..20 loop perform pg_current_xact_id(); commit; end loop;
    end $$";

/// Some 20 MB, in one transaction.
const MUCH_DATA: &str = "create table public.ballast as
    select repeat(md5(n::text), 16) from generate_series(1, 40000) n";

/// Long enough for several polls of the log and of the standbys.
const SEVERAL_POLLS: Duration = Duration::from_secs(5);

/// Makes `server` the only one that the configuration names.
fn read_only_from(config: &mut Config, server: &PostgresServer, database: &str) {
    config.upstream.url = Some(server.url(database, READER).into());
    config.upstream.read_urls.clear();
}

/// A connection to the fleet's database on another server.
async fn connect_to(server: &PostgresServer, fleet: &Fleet<'_>) -> Client {
    connect(&server.url(fleet.database.name(), SUPERUSER)).await
}

async fn wait_until_ready(replica: &Replica) {
    eventually(TIMEOUT, "the replica is ready", || async {
        replica.ops("/readyz").await.status == 200
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_fail_over_a_new_replica_serves_nothing_from_before_it() {
    need_own_servers!();
    let first = primary().await;
    let stream = FaultProxy::start(first.addr()).await;
    let second = first.start_standby_through(stream.addr().port()).await;
    let mut fleet = fleet(1, &first, &[], |_, _| {}).await;
    let (client, key) = (fleet.database.connect().await, fleet.database.new_key(1_000_000).await);
    let genes = genes_of(&client, DOMAIN).await;
    let paths = paths_of(&genes);
    first.wait_for_replay(&second).await;

    // From now on, the standby gets nothing. Redis gets a lost name of the first gene, and the name
    // of the other as of a transaction number that the new primary assigns to a change of it.
    stream.set(Mode::Refuse).await;
    client.execute(RENAME, &[&"lost", &genes[0]]).await.unwrap();
    client.batch_execute(LOST_TRANSACTIONS).await.unwrap();
    let replica = fleet.replicas.swap_remove(0);
    eventually(TIMEOUT, "the lost name is visible", || async {
        let found = responses(&replica, &key, &paths).await;
        found.iter().any(|(_, text)| text.contains("lost"))
    })
    .await;
    responses(&replica, &key, &paths).await;
    replica.shutdown().await;
    drop(client);
    first.kill().await;
    second.promote().await;
    let client = connect_to(&second, &fleet).await;
    client.execute(RENAME, &[&"new", &genes[1]]).await.unwrap();
    // Its numbers are beyond those that Redis has, so no entry looks like one from the future.
    client.batch_execute(TRANSACTIONS).await.unwrap();

    read_only_from(&mut fleet.config, &second, fleet.database.name());
    let mut uncached = fleet.config.clone();
    without_caches(&mut uncached);
    let expected = responses(&Replica::start(&uncached).await, &key, &paths).await;
    assert!(expected.iter().any(|(_, text)| text.contains("\"new\"")));
    assert!(expected.iter().all(|(_, text)| !text.contains("\"lost\"")));
    fleet.grow(2).await;
    for replica in &fleet.replicas {
        wait_until_ready(replica).await;
        assert_same(&responses(replica, &key, &paths).await, &expected, &paths);
        assert_same(&responses(replica, &key, &paths).await, &expected, &paths);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_fail_over_a_new_replica_reads_no_standby_with_lost_transactions() {
    need_own_servers!();
    let first = primary().await;
    let stream = FaultProxy::start(first.addr()).await;
    let second = first.start_standby_through(stream.addr().port()).await;
    let third = first.start_standby().await;
    let mut fleet = fleet(0, &first, &[], |config, _| without_caches(config)).await;
    let (client, key) = (fleet.database.connect().await, fleet.database.new_key(1_000_000).await);
    let gene = genes_of(&client, DOMAIN).await.swap_remove(0);
    for standby in [&second, &third] {
        first.wait_for_replay(standby).await;
    }

    stream.set(Mode::Refuse).await;
    client.execute(RENAME, &[&"lost", &gene]).await.unwrap();
    client.batch_execute(TRANSACTIONS).await.unwrap();
    first.wait_for_replay(&third).await;
    drop(client);
    first.kill().await;
    second.promote().await;
    // The new primary is ahead by its log, and the other standby by its transactions.
    let new_primary = connect_to(&second, &fleet).await;
    new_primary.batch_execute(MUCH_DATA).await.unwrap();
    read_only_from(&mut fleet.config, &second, fleet.database.name());
    fleet.config.upstream.read_urls.push(third.url(fleet.database.name(), READER).into());
    fleet.grow(1).await;

    assert_never_lost(&fleet.replicas, &key, &gene).await;
    // Then in both.
    for _ in 0..2 {
        new_primary.batch_execute(TRANSACTIONS).await.unwrap();
    }
    fleet.grow(1).await;
    assert_never_lost(&fleet.replicas, &key, &gene).await;
    for replica in &fleet.replicas {
        assert_eq!(reads(replica, "answered").await, 0.0);
    }
}

/// For some seconds, no response has the name that was lost.
async fn assert_never_lost(replicas: &[Replica], key: &str, gene: &str) {
    for replica in replicas {
        wait_until_ready(replica).await;
    }
    let until = Instant::now() + SEVERAL_POLLS;
    while Instant::now() < until {
        for replica in replicas {
            for path in [format!("/genes/{gene}/phenotype"), format!("/genes?domain={DOMAIN}")] {
                let response = replica.get(&path, Some(key)).await;
                assert_eq!(response.status, 200, "{response:?}");
                assert!(!response.text.contains("\"lost\""), "{path}: {response:?}");
            }
        }
    }
}

/// The primary has been killed; a replica that starts then must read the standby.
async fn assert_standby_is_read(mut fleet: Fleet<'_>, first: &PostgresServer, key: &str) {
    first.kill().await;
    fleet.grow(1).await;
    let replica = &fleet.replicas[0];
    eventually(2 * TIMEOUT, "the standby is read", || async {
        replica.get(&uncached_path(), Some(key)).await.status == 200
    })
    .await;
    wait_until_ready(replica).await;
    let until = Instant::now() + SEVERAL_POLLS;
    while Instant::now() < until {
        let path = uncached_path();
        let requests = ["/genes?limit=7", &path].map(|path| replica.get(path, Some(key)));
        for response in join_all(requests).await {
            assert_eq!(response.status, 200, "{response:?}");
        }
    }
    assert!(reads(replica, "answered").await > 0.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_primary_a_new_replica_reads_the_standby_that_redis_knows() {
    need_own_servers!();
    let first = primary().await;
    let standby = first.start_standby().await;
    let mut fleet = fleet(1, &first, &[&standby], |_, _| {}).await;
    let key = fleet.database.new_key(1_000_000).await;
    let replica = fleet.replicas.swap_remove(0);
    assert_eq!(replica.get("/genes", Some(&key)).await.status, 200);
    first.wait_for_replay(&standby).await;
    replica.shutdown().await;
    assert_standby_is_read(fleet, &first, &key).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_primary_and_redis_a_new_replica_reads_the_standby() {
    need_own_servers!();
    let first = primary().await;
    let standby = first.start_standby().await;
    let mut fleet = fleet(0, &first, &[&standby], |config, _| config.redis.url = None).await;
    let key = fleet.database.new_key(1_000_000).await;
    fleet.config.rate_limit.replicas = 1;
    first.wait_for_replay(&standby).await;
    assert_standby_is_read(fleet, &first, &key).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_are_visible_and_cached_after_the_promotion_of_a_standby_with_a_slow_clock() {
    need_own_servers!();
    let (first, clock) = (primary().await, FakeClock::new(-30));
    let second = first.start_standby_with_clock(&clock).await;
    let proxy = FaultProxy::start(first.addr()).await;
    let fleet = fleet(2, &first, &[], |config, database| {
        config.upstream.url = Some(proxy.url(&database.url_as(READER)).into());
    })
    .await;
    let (client, key) = (fleet.database.connect().await, fleet.database.new_key(1_000_000).await);
    let gene = genes_of(&client, DOMAIN).await.swap_remove(0);
    let path = format!("/genes/{gene}/phenotype");
    first.wait_for_replay(&second).await;
    drop(client);
    first.kill().await;
    second.promote().await;
    proxy.retarget(second.addr());
    for replica in &fleet.replicas {
        eventually(TIMEOUT, "the new primary is read", || async {
            replica.get(&uncached_path(), Some(&key)).await.status == 200
        })
        .await;
    }

    let client = connect_to(&second, &fleet).await;
    for name in ["first", "second"] {
        client.execute(RENAME, &[&name, &gene]).await.unwrap();
        let committed = Instant::now();
        for replica in &fleet.replicas {
            visible_within(committed, Duration::from_secs(2), "the new name", || async {
                let found = replica.get(&path, Some(&key)).await;
                if found.text.contains(name) { Ok(()) } else { Err(format!("{found:?}")) }
            })
            .await;
            eventually(Duration::from_secs(10), "it is cached", || async {
                replica.get(&path, Some(&key)).await.header("cache-status").contains("hit")
            })
            .await;
        }
    }
}
