//! Totals: counted once for all pages, and again when a page contradicts them; and deep pages.

use std::sync::atomic::Ordering;

use futures_util::future::join_all;

use super::{TIMEOUT, assert_ok, fleet_with_probe, wait_for_admitted};
use crate::support::probe::{Hold, Probe};
use crate::support::replica::Replica;
use crate::support::traffic::{assert_shed, uncached_path};
use crate::support::wait::eventually;

fn counted(probe: &Probe) -> usize {
    probe.counted.load(Ordering::SeqCst)
}

fn pages(probe: &Probe) -> usize {
    probe.pages.load(Ordering::SeqCst)
}

/// Total and number of genes of a page.
async fn page(replica: &Replica, key: &str, query: &str) -> (u64, usize) {
    let response = replica.get(&format!("/genes?{query}"), Some(key)).await;
    assert_ok(&response);
    let body = response.json();
    (body["total"].as_u64().unwrap(), body["data"].as_array().unwrap().len())
}

#[tokio::test(flavor = "multi_thread")]
async fn paging_counts_once_and_reads_nothing_past_the_end() {
    // Fresh throughout, also on a slow machine.
    let (fleet, probe) = fleet_with_probe(|config| config.cache.search.fresh_s = 3_000).await;
    let (key, replica) = (fleet.database.new_key(1_000_000).await, &fleet.replicas[0]);
    for (round, filter) in ["", "&domain=search", "&fidelity=Native"].iter().enumerate() {
        let (total, _) = page(replica, &key, &format!("limit=1{filter}")).await;
        let alone = pages(&probe);
        let mut found = 1;
        while found < total {
            let query = format!("limit=3&offset={found}{filter}");
            let (same_total, length) = page(replica, &key, &query).await;
            assert_eq!(same_total, total);
            found += length as u64;
        }
        assert_eq!(found, total);
        assert_eq!(counted(&probe), round + 1, "{filter}");
        assert_eq!(pages(&probe) - alone, (total as usize - 1).div_ceil(3), "{filter}");
        // Another sort order means other pages of the same genes.
        page(replica, &key, &format!("limit=3&sort=downloads{filter}")).await;
        assert_eq!(counted(&probe), round + 1, "{filter}");

        let reads = probe.reads();
        for offset in [total, total + 1, 5_000, 2_147_483_647] {
            let query = format!("limit=3&offset={offset}{filter}");
            assert_eq!(page(replica, &key, &query).await, (total, 0));
        }
        assert_eq!(probe.reads(), reads, "nothing is read past a known end");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_that_are_requested_at_once_are_counted_once() {
    let (fleet, probe) = fleet_with_probe(|config| config.cache.search.fresh_s = 3_000).await;
    let (key, replica) = (fleet.database.new_key(1_000_000).await, &fleet.replicas[0]);
    probe.hold(Hold::Results);
    let requests = (0..20).map(|offset| {
        let (key, query) = (&key, format!("limit=3&offset={offset}"));
        async move { page(replica, key, &query).await }
    });
    let release = async {
        wait_for_admitted(&fleet, 20).await;
        eventually(TIMEOUT, "a total is read", || async { probe.waiting() == 1 }).await;
        probe.hold(Hold::Nothing);
    };
    let (found, ()) = tokio::join!(join_all(requests), release);

    assert!(found.iter().all(|page| *page == (found[0].0, 3)), "{found:?}");
    assert_eq!((counted(&probe), pages(&probe)), (1, 19));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fleet_counts_many_genes_once_after_a_change() {
    let (fleet, probe) = fleet_with_probe(|config| config.cache.search.fresh_s = 3_000).await;
    let (key, client) = (fleet.database.new_key(1_000_000).await, fleet.database.connect().await);
    let many = "insert into registry.gene (domain, fidelity, owner_id, name)
        select 'many', 'Native', (select min(id) from registry.owner), 'n'
        from generate_series(1, 1000)";
    client.batch_execute(many).await.unwrap();
    // Another page of each replica, all at once.
    let pages_at_once = async |first: usize| {
        let requests = (0..6).map(|number| {
            let (key, replica) = (&key, &fleet.replicas[number % fleet.replicas.len()]);
            let query = format!("limit=3&offset={}", first + number);
            async move { page(replica, key, &query).await.0 }
        });
        join_all(requests).await
    };
    let totals = pages_at_once(0).await;
    // A page of its own, so that it shows what this replica knows.
    let total_at = async |number: usize| {
        page(&fleet.replicas[number], &key, &format!("limit={}", 4 + number)).await.0
    };
    for number in 0..fleet.replicas.len() {
        assert_eq!(total_at(number).await, totals[0]);
    }
    let before = counted(&probe);

    let sql = "update registry.gene set published = false
        where id = (select id from registry.gene where published limit 1)";
    client.batch_execute(sql).await.unwrap();
    for number in 0..fleet.replicas.len() {
        eventually(TIMEOUT, "the change is known", || async {
            total_at(number).await == totals[0] - 1
        })
        .await;
    }
    assert_eq!(pages_at_once(6).await, vec![totals[0] - 1; 6]);
    assert_eq!(counted(&probe), before + 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_that_contradicts_the_total_is_read_again_with_a_new_total() {
    let (fleet, probe) = fleet_with_probe(|config| config.cache.search.fresh_s = 3_000).await;
    let (key, replica) = (fleet.database.new_key(1_000_000).await, &fleet.replicas[0]);
    let sql = fleet.database.connect().await;
    // Changes that are in no log.
    sql.batch_execute("set session_replication_role = replica").await.unwrap();
    let (total, _) = page(replica, &key, "limit=1").await;
    let publish = async |published: bool, count: u64| {
        let text = format!(
            "update registry.gene set published = {published} where id in
            (select id from registry.gene where published <> {published} order by id limit {count})"
        );
        assert_eq!(sql.execute(&text, &[]).await.unwrap(), count);
    };

    // Fewer genes: a short page that does not end at the total.
    publish(false, 3).await;
    let query = format!("limit=50&offset={}", total - 10);
    assert_eq!(page(replica, &key, &query).await, (total - 3, 7));
    assert_eq!((counted(&probe), pages(&probe)), (2, 1));
    // An empty page before the total.
    publish(false, 4).await;
    let query = format!("limit=50&offset={}", total - 5);
    assert_eq!(page(replica, &key, &query).await, (total - 7, 0));
    assert_eq!((counted(&probe), pages(&probe)), (3, 2));
    // More genes: a page that ends beyond the total.
    publish(true, 7).await;
    let query = format!("limit=50&offset={}", total - 8);
    assert_eq!(page(replica, &key, &query).await, (total, 8));
    assert_eq!((counted(&probe), pages(&probe)), (4, 3));
    // From now on, the new total is the known one.
    assert_eq!(page(replica, &key, "limit=2").await, (total, 2));
    assert_eq!((counted(&probe), pages(&probe)), (4, 4));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_total_is_not_used_after_a_logged_change() {
    let (fleet, probe) = fleet_with_probe(|config| config.cache.search.fresh_s = 3_000).await;
    let (key, replica) = (fleet.database.new_key(1_000_000).await, &fleet.replicas[0]);
    let (total, _) = page(replica, &key, "limit=1").await;
    let sql = "update registry.gene set published = false
        where id = (select id from registry.gene where published limit 1)";
    fleet.database.connect().await.batch_execute(sql).await.unwrap();
    eventually(TIMEOUT, "the change is visible", || async {
        page(replica, &key, "limit=1").await.0 == total - 1
    })
    .await;
    assert_eq!(page(replica, &key, "limit=1&offset=1").await.0, total - 1);
    assert_eq!(counted(&probe), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_deep_pages_are_read_at_a_time_while_shallow_pages_are_served() {
    let (fleet, probe) = fleet_with_probe(|_| {}).await;
    let (key, replica) = (fleet.database.new_key(1_000_000).await, &fleet.replicas[0]);
    probe.hold(Hold::DeepWalks);
    let deep = (0..6).map(|_| async {
        replica.get(&format!("{}&offset=1001", uncached_path()), Some(&key)).await
    });
    let shallow = async {
        wait_for_admitted(&fleet, 6).await;
        eventually(TIMEOUT, "two deep pages are read", || async { probe.waiting() == 2 }).await;
        for n in 0..30 {
            // Offsets up to here are not deep.
            let path = format!("{}&offset={}", uncached_path(), [0, 20, 1000][n % 3]);
            assert_ok(&replica.get(&path, Some(&key)).await);
            assert_eq!(probe.waiting(), 2);
        }
        probe.hold(Hold::Nothing);
    };
    let (responses, ()) = tokio::join!(join_all(deep), shallow);
    responses.iter().for_each(assert_ok);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_waits_too_long_for_a_deep_page_gets_503() {
    let (fleet, probe) = fleet_with_probe(|config| config.shed.wait_ms = 500).await;
    let (key, replica) = (fleet.database.new_key(1_000_000).await, &fleet.replicas[0]);
    probe.hold(Hold::DeepWalks);
    let walk = async || replica.get(&format!("{}&offset=5000", uncached_path()), Some(&key)).await;
    let others = async {
        eventually(TIMEOUT, "two deep pages are read", || async { probe.waiting() == 2 }).await;
        let responses = join_all((0..10).map(|_| walk())).await;
        responses.iter().for_each(|response| assert_shed(response));
        assert_eq!(probe.reads(), 2, "the database was not queried");
        assert_ok(&replica.get(&uncached_path(), Some(&key)).await);
        probe.hold(Hold::Nothing);
    };
    let (first, second, ()) = tokio::join!(walk(), walk(), others);

    assert_ok(&first);
    assert_ok(&second);
    assert_ok(&walk().await);
}
