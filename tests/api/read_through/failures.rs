//! Failures and missing genes are cached only briefly or not at all, and never shared.

use reqwest::StatusCode;

use super::{REPLICAS, TIMEOUT, assert_ok, entry_keys, fleet_with_probe, wait_for_admitted};
use crate::support::probe::Hold;
use crate::support::redis::RedisServer;
use crate::support::traffic::routes;
use crate::support::wait::eventually;

const ABSENT: &str = "/genes/00000000-0000-0000-0000-00000000abcd/phenotype";

#[tokio::test(flavor = "multi_thread")]
async fn a_502_is_not_cached_and_the_next_request_succeeds_on_every_replica() {
    for number in 0..REPLICAS as usize {
        let (fleet, probe) = fleet_with_probe(|_| {}).await;
        let key = fleet.database.new_key(1_000_000).await;
        let paths = routes(&fleet.database).await;

        probe.set_failing(true);
        for path in &paths {
            for replica in &fleet.replicas {
                let response = replica.get(path, Some(&key)).await;
                response.assert_refused(502, "DB_ERROR");
                assert_eq!(response.header("cache-control"), "no-store", "{response:?}");
                assert_eq!(response.header("etag"), "", "{response:?}");
            }
        }
        assert_eq!(entry_keys(&fleet).await, Vec::<String>::new());

        probe.set_failing(false);
        for path in &paths {
            // Whichever replica comes first.
            for turn in 0..3 {
                assert_ok(&fleet.replicas[(number + turn) % 3].get(path, Some(&key)).await);
            }
        }
        assert_eq!(entry_keys(&fleet).await.len(), paths.len());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_404_is_cached_briefly_and_only_by_its_own_replica() {
    let (fleet, probe) = fleet_with_probe(|config| config.cache.not_found_s = 2).await;
    let key = fleet.database.new_key(1_000_000).await;
    let (first, second) = (&fleet.replicas[0], &fleet.replicas[1]);

    for _ in 0..20 {
        let response = first.get(ABSENT, Some(&key)).await;
        response.assert_refused(404, "NOT_FOUND");
        assert_eq!(response.header("cache-control"), "no-store", "{response:?}");
    }
    // A slow machine may have taken longer than the 404 is cached.
    let by_first = probe.reads();
    assert!(by_first <= 3, "{by_first}");
    second.get(ABSENT, Some(&key)).await.assert_refused(404, "NOT_FOUND");
    assert_eq!(probe.reads(), by_first + 1, "the 404 is not shared");
    assert_eq!(entry_keys(&fleet).await, Vec::<String>::new());

    eventually(TIMEOUT, "the gene is read again", || async {
        first.get(ABSENT, Some(&key)).await.assert_refused(404, "NOT_FOUND");
        probe.reads() > by_first + 1
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_404_becomes_200_on_every_replica_soon_after_the_gene_appears() {
    let (fleet, _probe) = fleet_with_probe(|config| config.cache.not_found_s = 3600).await;
    let key = fleet.database.new_key(1_000_000).await;
    for replica in &fleet.replicas {
        replica.get(ABSENT, Some(&key)).await.assert_refused(404, "NOT_FOUND");
    }

    let move_one = "update registry.gene set id = '00000000-0000-0000-0000-00000000abcd'
        where id = (select g.id from registry.gene g where published
            and not exists (select from registry.arena_evaluation where gene_id = g.id) limit 1)";
    let moved = fleet.database.connect().await.execute(move_one, &[]).await.unwrap();
    assert_eq!(moved, 1);

    for replica in &fleet.replicas {
        eventually(TIMEOUT, "the gene is found", || async {
            replica.get(ABSENT, Some(&key)).await.status == StatusCode::OK
        })
        .await;
    }
}

/// An entry that was read before the deletion, written to Redis after the deletion was noticed.
#[tokio::test(flavor = "multi_thread")]
async fn a_replica_that_found_a_gene_deleted_never_serves_an_older_entry() {
    // Without a change log only ages count.
    let (mut fleet, probe) = fleet_with_probe(|config| config.cache.not_found_s = 1).await;
    let sql = fleet.database.connect().await;
    sql.batch_execute("drop view registry_read.change").await.unwrap();
    fleet.replicas.clear();
    for _ in 0..2 {
        fleet.replicas.push(super::start_replica(&fleet, &probe).await);
    }
    super::wait_until_ready(&fleet.replicas).await;
    let key = fleet.database.new_key(1_000_000).await;
    let path = &routes(&fleet.database).await[1];
    assert_ok(&fleet.replicas[0].get(path, Some(&key)).await);
    let [entry] = entry_keys(&fleet).await.try_into().unwrap();
    let redis = RedisServer::shared().await;
    let () = redis.command(&["COPY", &entry, &format!("{}:kept", fleet.prefix)]).await;

    let id = path.split('/').nth(2).unwrap();
    let sql_text = format!("update registry.gene set published = false where id = '{id}'");
    sql.batch_execute(&sql_text).await.unwrap();
    let () = redis.command(&["DEL", &entry]).await;
    fleet.replicas[1].get(path, Some(&key)).await.assert_refused(404, "NOT_FOUND");
    let before = probe.reads();
    let () = redis.command(&["COPY", &format!("{}:kept", fleet.prefix), &entry]).await;

    eventually(TIMEOUT, "the gene is read again", || async {
        fleet.replicas[1].get(path, Some(&key)).await.assert_refused(404, "NOT_FOUND");
        probe.reads() > before
    })
    .await;
}

/// No waiting request gets the 404 of a read that began before the gene appeared.
#[tokio::test(flavor = "multi_thread")]
async fn an_entry_replaces_a_cached_404() {
    let (fleet, probe) = fleet_with_probe(|_| {}).await;
    let key = fleet.database.new_key(1_000_000).await;
    let path = "/arena/insights?domain=appears";
    fleet.replicas[0].get(path, Some(&key)).await.assert_refused(404, "NOT_FOUND");
    let sql = "update registry.gene set domain = 'appears'
        where id = (select id from registry.gene where published limit 1)";
    fleet.database.connect().await.batch_execute(sql).await.unwrap();

    probe.hold(Hold::Everything);
    let waiting = fleet.replicas[1].get(path, Some(&key));
    let release = async {
        wait_for_admitted(&fleet, 2).await;
        probe.hold(Hold::Nothing);
    };
    let (response, ()) = tokio::join!(waiting, release);

    assert_ok(&response);
    eventually(TIMEOUT, "the other replica has read the change", || async {
        fleet.replicas[0].get(path, Some(&key)).await.status == StatusCode::OK
    })
    .await;
}
