//! `maintain` beside writers, beside locks and beside itself: nobody waits for it, and the ranks
//! end right.

use std::time::Duration;

use gene_registry::default_schema::maintain::{self, MaintainError, Maintained};
use tokio::task::JoinHandle;
use tokio_postgres::Client;

use super::database::{TestDatabase, fresh_database};
use super::schema::wrong_ranks;
use crate::support::wait::eventually;

/// Longer than any lock timeout of `maintain`, on a loaded machine.
const BOUND: Duration = Duration::from_secs(30);

/// A session that waits this long for a lock waits for the end of an open transaction.
const WRITER: &str = "SET lock_timeout = '5s'";

/// The first gene is the best and all ranks but that of the last are out of date: gene 1 was the
/// worst of `genes` before.
async fn domain_to_rank(genes: i32) -> TestDatabase {
    let database = fresh_database().await;
    let mut client = database.client().await;
    let insert = format!(
        "INSERT INTO registry.owner (handle) VALUES ('o');
        INSERT INTO registry.gene (id, domain, fidelity, owner_id, fitness_score)
            SELECT lpad(i::text, 32, '0')::uuid, 'd', 'Native', o.id, i / 1e6
            FROM generate_series(1, {genes}) i, registry.owner o"
    );
    client.batch_execute(&insert).await.expect("genes");
    round(&mut client).await;
    assert_eq!((wrong_ranks(&client).await, marks(&client).await), (0, 0));
    client.batch_execute(&set_fitness(1, 9.0)).await.expect("a change");
    assert_eq!(wrong_ranks(&client).await, i64::from(genes));
    database
}

fn set_fitness(gene: i32, fitness: f64) -> String {
    let id = format!("{gene:032}");
    format!("UPDATE registry.gene SET fitness_score = {fitness} WHERE id = '{id}';")
}

async fn try_round(client: &mut Client) -> Result<Maintained, MaintainError> {
    tokio::time::timeout(BOUND, maintain::run_once(client)).await.expect("a round in time")
}

async fn round(client: &mut Client) -> Maintained {
    try_round(client).await.expect("a round")
}

/// A round that had to wait may give up, on a machine that is slow.
#[track_caller]
fn assert_done_or_locked(round: &Result<Maintained, MaintainError>) {
    assert!(matches!(round, Ok(_) | Err(MaintainError::Locked)), "{round:?}");
}

async fn marks(client: &Client) -> i64 {
    let sql = "SELECT count(*) FROM registry.rank_due";
    client.query_one(sql, &[]).await.expect("a count").get(0)
}

async fn writer(database: &TestDatabase) -> Client {
    let client = database.client().await;
    client.batch_execute(WRITER).await.expect("a setting");
    client
}

/// Starts a round, and waits until it has ended or waits for a lock.
async fn begin_round(database: &TestDatabase) -> JoinHandle<Result<Maintained, MaintainError>> {
    let (mut client, watcher) = (database.client().await, database.client().await);
    let running = tokio::spawn(async move { try_round(&mut client).await });
    let waits = "SELECT EXISTS (SELECT FROM pg_stat_activity
        WHERE datname = current_database() AND wait_event_type = 'Lock')";
    eventually(BOUND, "the round ends or waits", || async {
        running.is_finished()
            || watcher.query_one(waits, &[]).await.expect("the activity").get::<_, bool>(0)
    })
    .await;
    running
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writers_and_an_open_transaction_go_on_beside_maintain() {
    let database = domain_to_rank(14).await;
    let (open, other) = (writer(&database).await, writer(&database).await);
    open.batch_execute(&format!("BEGIN; {}", set_fitness(7, 5.0))).await.expect("a change");
    let running = begin_round(&database).await;
    for gene in (1..=14).filter(|gene| *gene != 7) {
        let write = set_fitness(gene, f64::from(gene % 5));
        other.batch_execute(&write).await.unwrap_or_else(|error| panic!("gene {gene}: {error:?}"));
    }
    open.batch_execute(&set_fitness(3, 6.0)).await.expect("no deadlock");
    open.batch_execute("COMMIT").await.expect("a commit");
    running.await.expect("no panic").expect("a round");
    let mut client = database.client().await;
    round(&mut client).await;
    assert_eq!((wrong_ranks(&client).await, marks(&client).await), (0, 0));
}

#[tokio::test]
async fn the_rank_of_a_locked_gene_stays_marked_until_a_round_finds_it_free() {
    let database = domain_to_rank(14).await;
    let (open, mut client) = (writer(&database).await, database.client().await);
    let lock = "BEGIN; SELECT FROM registry.gene WHERE id = lpad('7', 32, '0')::uuid FOR UPDATE";
    open.batch_execute(lock).await.expect("a lock");
    for _ in 0..2 {
        round(&mut client).await;
        assert_eq!((wrong_ranks(&client).await, marks(&client).await), (1, 1));
    }
    open.batch_execute("ROLLBACK").await.expect("an end");
    assert_eq!(round(&mut client).await.ranks, 1);
    assert_eq!((wrong_ranks(&client).await, marks(&client).await), (0, 0));
}

#[tokio::test]
async fn a_large_domain_is_updated_in_batches_with_a_commit_each() {
    let database = domain_to_rank(10_100).await;
    let mut client = database.client().await;
    assert_eq!(round(&mut client).await.ranks, 10_100);
    assert_eq!((wrong_ranks(&client).await, marks(&client).await), (0, 0));
    let largest = "SELECT max(count) FROM
        (SELECT count(*) FROM registry.gene GROUP BY xmin::text) transactions";
    let largest: i64 = client.query_one(largest, &[]).await.expect("a count").get(0);
    assert!(largest <= 500, "{largest} rows in one transaction");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_between_reading_and_updating_ranks_counts_in_the_next_round() {
    let database = domain_to_rank(14).await;
    let (holder, other) = (database.client().await, writer(&database).await);
    let lock = "BEGIN; LOCK TABLE registry.rank_due IN SHARE UPDATE EXCLUSIVE MODE";
    holder.batch_execute(lock).await.expect("a lock");
    let running = begin_round(&database).await;
    other.batch_execute(&set_fitness(5, 12.0)).await.expect("a change");
    let away = "UPDATE registry.gene SET domain = 'e' WHERE id = lpad('6', 32, '0')::uuid";
    other.batch_execute(away).await.expect("a change");
    holder.batch_execute("COMMIT").await.expect("an end");
    assert_done_or_locked(&running.await.expect("no panic"));
    let mut client = database.client().await;
    round(&mut client).await;
    assert_eq!((wrong_ranks(&client).await, marks(&client).await), (0, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_round_writes_no_ranks_that_another_round_has_overtaken() {
    let database = domain_to_rank(14).await;
    let holder = database.client().await;
    let lock = "BEGIN; LOCK TABLE registry.rank_due IN SHARE UPDATE EXCLUSIVE MODE";
    holder.batch_execute(lock).await.expect("a lock");
    let running = begin_round(&database).await;
    // As a writer and the round after it would: nothing is left to do.
    let overtake = format!(
        "{}
        UPDATE registry.gene g SET arena_rank = r.rank FROM (SELECT id,
            row_number() OVER (ORDER BY fitness_score DESC, id) AS rank FROM registry.gene) r
        WHERE g.id = r.id;
        DELETE FROM registry.rank_due;
        COMMIT",
        set_fitness(5, 12.0)
    );
    holder.batch_execute(&overtake).await.expect("ranks");
    assert_done_or_locked(&running.await.expect("no panic"));
    let client = database.client().await;
    assert_eq!((wrong_ranks(&client).await, marks(&client).await), (0, 0));
}

/// Writes of all kinds; genes of one transaction in the order of their ids, as writers that do not
/// block each other do.
async fn write_on(client: Client, number: u32) {
    for turn in 0..60_u32 {
        let random = turn.wrapping_mul(2_654_435_761).rotate_left(number * 7) % 97;
        let gene = 1 + number * 50 + random % 48;
        let (one, next) = (format!("{gene:032}"), format!("{:032}", gene + 1));
        let sql = match random % 4 {
            0 => format!(
                "BEGIN; UPDATE registry.gene SET fitness_score = {random} WHERE id = '{one}';
                UPDATE registry.gene SET downloads = {turn} WHERE id = '{next}'; COMMIT"
            ),
            1 => format!(
                "UPDATE registry.gene SET domain = CASE domain WHEN 'd' THEN 'e' ELSE 'd' END
                WHERE id = '{one}'"
            ),
            2 => format!("UPDATE registry.gene SET published = NOT published WHERE id = '{one}'"),
            _ => format!(
                "UPDATE registry.gene SET fitness_score = {random} WHERE id IN ('{one}', '{next}')"
            ),
        };
        client.batch_execute(&sql).await.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn ranks_end_right_after_concurrent_writers_and_rounds() {
    let database = domain_to_rank(200).await;
    let mut writers = tokio::task::JoinSet::new();
    for number in 0..4 {
        writers.spawn(write_on(writer(&database).await, number));
    }
    let (done, is_done) = tokio::sync::watch::channel(false);
    let mut rounds = Vec::new();
    for _ in 0..2 {
        let (mut client, is_done) = (database.client().await, is_done.clone());
        rounds.push(tokio::spawn(async move {
            while !*is_done.borrow() {
                assert_done_or_locked(&try_round(&mut client).await);
            }
        }));
    }
    while let Some(written) = writers.join_next().await {
        written.expect("no writer is blocked or broken");
    }
    done.send(true).expect("rounds");
    for running in rounds {
        running.await.expect("no round fails");
    }
    let mut client = database.client().await;
    round(&mut client).await;
    assert_eq!((wrong_ranks(&client).await, marks(&client).await), (0, 0));
}

#[tokio::test]
async fn a_lock_on_a_whole_table_ends_the_round_and_the_next_one_does_the_work() {
    let database = domain_to_rank(14).await;
    let (holder, mut client) = (database.client().await, database.client().await);
    let old = "INSERT INTO registry.change (scope, changed_at)
        VALUES ('old', now() - interval '49 hours')";
    for table in ["gene", "rank_due", "change"] {
        client.batch_execute(old).await.expect("a log");
        let lock = format!("BEGIN; LOCK TABLE registry.{table} IN ACCESS EXCLUSIVE MODE");
        holder.batch_execute(&lock).await.expect("a lock");
        let error = try_round(&mut client).await.expect_err("the table is locked");
        assert!(matches!(error, MaintainError::Locked), "{table}: {error:?}");
        holder.batch_execute("ROLLBACK").await.expect("an end");
        // What needed another table was done.
        let log = "SELECT count(*) FROM registry.change WHERE scope = 'old'";
        let old_changes: i64 = client.query_one(log, &[]).await.expect("a count").get(0);
        let expected = if table == "change" { (0, 1) } else { (14, 0) };
        assert_eq!((wrong_ranks(&client).await, old_changes), expected, "{table}");
    }
    assert_eq!(round(&mut client).await.pruned, 1);
    client.batch_execute(&set_fitness(2, 10.0)).await.expect("a change");
    round(&mut client).await;
    assert_eq!((wrong_ranks(&client).await, marks(&client).await), (0, 0));
}

#[tokio::test]
async fn the_change_log_is_pruned_in_batches_beside_a_lock_on_one_of_its_rows() {
    let database = fresh_database().await;
    let (open, mut client) = (database.client().await, database.client().await);
    let log = "CREATE TABLE public.batch (rows bigint);
        CREATE FUNCTION public.count_batch() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            INSERT INTO public.batch SELECT count(*) FROM gone; RETURN NULL; END $$;
        CREATE TRIGGER count_batch AFTER DELETE ON registry.change
            REFERENCING OLD TABLE AS gone EXECUTE FUNCTION public.count_batch();
        INSERT INTO registry.change (scope, changed_at)
            SELECT 'old', now() - interval '49 hours' FROM generate_series(1, 1200);
        INSERT INTO registry.change (scope, changed_at)
            SELECT 'older', now() - i * interval '50 hours' FROM generate_series(1, 1100) i;
        INSERT INTO registry.change (scope, changed_at) VALUES
            ('first', '-infinity'), ('locked', now() - interval '60 hours'),
            ('young', now() - interval '47 hours'), ('last', 'infinity')";
    client.batch_execute(log).await.expect("a log");
    let lock = "BEGIN; SELECT FROM registry.change WHERE scope = 'locked' FOR UPDATE";
    open.batch_execute(lock).await.expect("a lock");
    assert_eq!(round(&mut client).await.pruned, 2_301);
    let largest = client.query_one("SELECT max(rows) FROM public.batch", &[]).await;
    assert!(largest.expect("a count").get::<_, i64>(0) <= 500);
    let rows = client.query("SELECT scope FROM registry.change ORDER BY 1", &[]).await;
    let left: Vec<String> = rows.expect("a log").iter().map(|row| row.get(0)).collect();
    assert_eq!(left, ["last", "locked", "young"]);
    open.batch_execute("COMMIT").await.expect("an end");
    assert_eq!(round(&mut client).await.pruned, 1);
}
