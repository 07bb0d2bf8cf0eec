//! Compares this service's reading of snapshots with that of Postgres.

use gene_registry::upstream::Snapshot;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use tokio_postgres::Client;

use crate::support::postgres::PostgresServer;
use crate::support::replica::migrated;

/// A snapshot as text, and transactions below, within and above it.
fn case() -> impl Strategy<Value = (String, Vec<u64>)> {
    // Some are beyond 32 bits: an xid8 does not wrap.
    let begin = prop_oneof![1..50_u64, Just((1 << 32) + 5), Just((1 << 40) + 1000)];
    (begin, prop::collection::btree_set(0..40_u64, 0..12), 0..10_u64).prop_map(
        |(xmin, running, more)| {
            let xmax = running.last().map_or(xmin, |last| xmin + last + 1) + more;
            let list: Vec<String> = running.iter().map(|n| (xmin + n).to_string()).collect();
            let around = (xmin.saturating_sub(3).max(1)..xmax + 3).collect();
            (format!("{xmin}:{xmax}:{}", list.join(",")), around)
        },
    )
}

/// Whether Postgres considers each transaction visible in its snapshot.
async fn visible(client: &Client, snapshots: &[String], xids: &[String]) -> Vec<bool> {
    let sql = "select pg_visible_in_snapshot(xid::xid8, snapshot::pg_snapshot)
        from unnest($1::text[], $2::text[]) with ordinality as pair (xid, snapshot, n) order by n";
    client.query(sql, &[&xids, &snapshots]).await.unwrap().iter().map(|row| row.get(0)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn visibility_agrees_with_postgres() {
    let client = PostgresServer::shared().await.admin().await;
    let (mut runner, case) = (TestRunner::default(), case());
    let (mut snapshots, mut xids, mut expected) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..500 {
        let (text, around) = case.new_tree(&mut runner).unwrap().current();
        let snapshot: Snapshot = text.parse().unwrap();
        assert_eq!(snapshot.to_string(), text);
        for xid in around {
            expected.push(snapshot.sees(xid));
            snapshots.push(text.clone());
            xids.push(xid.to_string());
        }
    }
    let found = visible(&client, &snapshots, &xids).await;
    assert_eq!(found.len(), expected.len());
    for (at, (found, expected)) in found.iter().zip(&expected).enumerate() {
        assert_eq!(found, expected, "{} in {}", xids[at], snapshots[at]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn snapshots_with_running_transactions_survive_formatting_and_parsing() {
    let database = migrated(PostgresServer::shared().await).await;
    let client = database.connect().await;
    let mut open = Vec::new();
    let (mut ended, mut random) = (Vec::new(), TestRunner::deterministic());
    for round in 0..40_u32 {
        let other = database.connect().await;
        let begin = "begin; insert into registry.owner (handle) values (gen_random_uuid())";
        other.batch_execute(begin).await.unwrap();
        let row = other.query_one("select pg_current_xact_id()::text", &[]).await.unwrap();
        open.push((other, row.get::<_, String>(0).parse::<u64>().unwrap()));
        if round % 3 != 0 {
            let at = (0..open.len()).new_tree(&mut random).unwrap().current();
            let (other, xid) = open.swap_remove(at);
            other.batch_execute(if round % 2 == 0 { "commit" } else { "rollback" }).await.unwrap();
            ended.push(xid);
        }

        let row = client.query_one("select pg_current_snapshot()::text", &[]).await.unwrap();
        let text: String = row.get(0);
        let snapshot: Snapshot = text.parse().unwrap();

        assert_eq!(snapshot.to_string(), text);
        assert!(ended.iter().all(|xid| snapshot.sees(*xid)), "{ended:?} in {text}");
        assert!(open.iter().all(|(_, xid)| !snapshot.sees(*xid)), "{text}");
        let newest = ended.iter().max().copied().unwrap_or(1);
        let xids: Vec<u64> = (newest.saturating_sub(60).max(1)..newest + 10).collect();
        let written: Vec<String> = xids.iter().map(u64::to_string).collect();
        let found = visible(&client, &vec![text.clone(); xids.len()], &written).await;
        let ours: Vec<bool> = xids.iter().map(|xid| snapshot.sees(*xid)).collect();
        assert_eq!(found, ours, "{text}");
    }
}
