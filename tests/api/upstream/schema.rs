//! The default schema: migration, and the maintenance of ranks.

use gene_registry::default_schema::seed::EmptyRegistry;
use gene_registry::default_schema::{generate, maintain, migrate};
use gene_registry::registry::{CatalogueGene, Timestamp};
use tokio_postgres::Client;

use super::behaviour::{gene, now};
use super::database::{TestDatabase, empty_database, fresh_database};
use crate::support::database::seed;

#[tokio::test]
async fn migrating_again_changes_nothing() {
    let database = fresh_database().await;
    let again = migrate::migrate(&mut database.client().await).await.expect("the schema");
    assert_eq!(again, migrate::Migrated::default());
}

#[tokio::test]
async fn a_migration_of_another_release_changes_nothing() {
    let database = fresh_database().await;
    let mut client = database.client().await;
    for (change, named) in [
        ("UPDATE registry.refinery_schema_history SET checksum = '1' WHERE version = 2", "V2__"),
        ("UPDATE registry.refinery_schema_history SET version = 99 WHERE version = 2", "V99__"),
    ] {
        client.batch_execute(change).await.expect("a change");
        let error = migrate::migrate(&mut client).await.expect_err("another release");
        assert!(error.to_string().contains(named), "{error}");
    }
}

#[tokio::test]
async fn after_a_roll_back_the_schema_of_a_later_release_stays() {
    let database = fresh_database().await;
    let mut client = database.client().await;
    let added = "INSERT INTO registry.refinery_schema_history VALUES (99, 'later', '', '1')";
    client.batch_execute(added).await.expect("a migration of a later release");
    let migrate::Migrated { applied, warnings } =
        migrate::migrate(&mut client).await.expect("it stays");
    assert_eq!(applied, 0);
    assert!(matches!(&*warnings, [warning] if warning.contains("V99__later")), "{warnings:?}");
    // Nothing later can have been applied before what this release has.
    let removed = "DELETE FROM registry.refinery_schema_history WHERE version = 7";
    client.batch_execute(removed).await.expect("a gap");
    let error = migrate::migrate(&mut client).await.expect_err("a gap");
    assert!(error.to_string().contains("V99__later"), "{error}");
}

#[tokio::test]
async fn a_failed_migration_changes_nothing_and_can_be_repeated() {
    let database = empty_database().await;
    let mut client = database.client().await;
    client.batch_execute("CREATE SCHEMA registry; CREATE TABLE registry.change ()").await.unwrap();
    let error = migrate::migrate(&mut client).await.expect_err("the table exists");
    assert!(error.to_string().contains("V1__tables"), "{error}");
    client.batch_execute("DROP TABLE registry.change").await.expect("the only other table");
    let migrated = migrate::migrate(&mut client).await.expect("the schema");
    assert_eq!(migrated, migrate::Migrated { applied: 7, warnings: vec![] });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_migrations_wait_for_each_other_across_databases() {
    let (one, other) = (empty_database().await, empty_database().await);
    let mut running = Vec::new();
    for database in [&one, &one, &one, &other, &other] {
        let mut client = database.client().await;
        running.push(tokio::spawn(async move { migrate::migrate(&mut client).await }));
    }
    let mut applied = Vec::new();
    for migration in running {
        applied.push(migration.await.expect("no panic").expect("the schema").applied);
    }
    applied.sort_unstable();
    assert_eq!(applied, [0, 0, 0, 7, 7]);
}

/// The id and rank of every gene whose rank is wrong.
pub(super) async fn wrong_ranks(client: &Client) -> i64 {
    let sql = "SELECT count(*) FROM (SELECT published, arena_rank, row_number() OVER (
            PARTITION BY domain, published ORDER BY fitness_score DESC, id) AS place
            FROM registry.gene) g
        WHERE arena_rank <> CASE WHEN published THEN place ELSE 0 END";
    client.query_one(sql, &[]).await.expect("a count").get(0)
}

#[tokio::test]
async fn ranks_are_exact_after_seed_and_after_maintain() {
    let database = fresh_database().await;
    let mut client = database.client().await;
    database.load(generate::genes(3_000, 3).collect(), Timestamp::now()).await;
    assert_eq!(wrong_ranks(&client).await, 0);
    let nothing = maintain::run_once(&mut client).await.expect("a round");
    assert_eq!((nothing.domains, nothing.ranks), (0, 0));
    for sql in [
        "UPDATE registry.gene SET fitness_score = 3 WHERE id IN (
            SELECT id FROM registry.gene WHERE domain = 'bench.large' ORDER BY id LIMIT 9)",
        "UPDATE registry.gene SET published = NOT published WHERE get_byte(uuid_send(id), 3) = 7",
        "UPDATE registry.gene SET domain = 'bench.new' WHERE get_byte(uuid_send(id), 3) = 8",
        "DELETE FROM registry.gene WHERE get_byte(uuid_send(id), 3) = 9",
        "UPDATE registry.gene SET id = gen_random_uuid() WHERE get_byte(uuid_send(id), 3) = 10",
        "INSERT INTO registry.gene (domain, fidelity, owner_id, fitness_score)
            SELECT 'bench.large', 'Native', min(id), 0.5 FROM registry.owner",
    ] {
        client.batch_execute(sql).await.expect("a change");
        assert_ne!(wrong_ranks(&client).await, 0, "{sql}");
        let done = maintain::run_once(&mut client).await.expect("a round");
        assert!(done.domains > 0 && done.ranks > 0);
        assert_eq!(wrong_ranks(&client).await, 0, "{sql}");
    }
    client.batch_execute("UPDATE registry.gene SET downloads = 1").await.expect("a change");
    let nothing = maintain::run_once(&mut client).await.expect("a round");
    assert_eq!((nothing.domains, nothing.ranks), (0, 0));
}

#[tokio::test]
async fn a_small_change_does_not_make_the_next_large_one_slow() {
    let database = fresh_database().await;
    let client = database.client().await;
    database.load(generate::genes(20_000, 3).collect(), Timestamp::now()).await;
    client.batch_execute("SET statement_timeout = '20s'").await.expect("a setting");
    let one = "UPDATE registry.gene SET name = 'n', fitness_score = 9
        WHERE id = (SELECT min(id::text)::uuid FROM registry.gene)";
    client.batch_execute(one).await.expect("a small change");
    client.batch_execute("UPDATE registry.owner SET handle = 'o' WHERE id = 1").await.expect("one");
    let all = "UPDATE registry.gene SET name = 'm', fitness_score = fitness_score / 2";
    client.batch_execute(all).await.expect("a large change");
    let owners = "UPDATE registry.owner SET handle = handle || 'x'";
    client.batch_execute(owners).await.expect("a large change");
}

#[tokio::test]
async fn maintain_prunes_what_is_older_than_two_days() {
    let database = fresh_database().await;
    let mut client = database.client().await;
    let log = "INSERT INTO registry.change (scope, changed_at) VALUES
        ('old', now() - interval '49 hours'), ('young', now() - interval '47 hours')";
    client.batch_execute(log).await.expect("a log");
    assert_eq!(maintain::run_once(&mut client).await.expect("a round").pruned, 1);
    let rows = client.query("SELECT scope FROM registry.change", &[]).await.expect("a log");
    assert_eq!(rows.iter().map(|row| row.get(0)).collect::<Vec<String>>(), ["young"]);
}

#[tokio::test]
async fn seeding_a_filled_registry_changes_nothing() {
    let database = fresh_database().await;
    database.load(vec![gene(1, "d", &[(1, 0.5)])], now()).await;
    let mut client = database.client().await;
    let genes = vec![gene(2, "d", &[])].into_iter();
    assert_eq!(seed(&mut client, genes, now()).await.expect("no error"), None);
    assert_eq!(ids(&client).await.len(), 1);
}

#[tokio::test]
async fn a_seed_that_stalls_does_not_keep_its_locks() {
    let database = fresh_database().await;
    let mut client = database.client().await;
    let registry = EmptyRegistry::lock(&mut client).await.expect("no error").expect("no genes");
    let show = "SHOW idle_in_transaction_session_timeout";
    let row = registry.transaction().query_one(show, &[]).await.expect("a setting");
    assert_eq!(row.get::<_, String>(0), "1min");
}

#[tokio::test]
async fn a_failed_seed_changes_nothing() {
    let database = fresh_database().await;
    let mut client = database.client().await;
    let twice = vec![gene(1, "d", &[(1, 0.5)]), gene(1, "d", &[])].into_iter();
    assert!(seed(&mut client, twice, now()).await.is_err());
    assert!(ids(&client).await.is_empty());
    let before = indexes(&database).await;
    database.load(vec![gene(1, "d", &[(1, 0.5)])], now()).await;
    assert_eq!(indexes(&database).await, before);
    let log = client.query("SELECT scope FROM registry.change", &[]).await.expect("a log");
    assert_eq!(log.iter().map(|row| row.get(0)).collect::<Vec<String>>(), ["all"]);
}

#[tokio::test]
async fn the_same_seed_gives_the_same_registry() {
    let mut found: Vec<Vec<String>> = Vec::new();
    for _ in 0..2 {
        let database = fresh_database().await;
        let genes: Vec<CatalogueGene> = generate::genes(400, 5).collect();
        database.load(genes, now()).await;
        let sql = "SELECT row_to_json(g)::text FROM registry_read.gene g ORDER BY id";
        let rows = database.client().await.query(sql, &[]).await.expect("genes");
        found.push(rows.iter().map(|row| row.get(0)).collect());
    }
    assert_eq!(found[0], found[1]);
}

async fn ids(client: &Client) -> Vec<uuid::Uuid> {
    let rows = client.query("SELECT id FROM registry.gene", &[]).await.expect("genes");
    rows.iter().map(|row| row.get(0)).collect()
}

async fn indexes(database: &TestDatabase) -> Vec<String> {
    let sql = "SELECT indexdef FROM pg_indexes WHERE schemaname = 'registry'
        UNION ALL SELECT pg_get_constraintdef(oid) FROM pg_constraint
            WHERE connamespace = 'registry'::regnamespace
        UNION ALL SELECT tgname || tgenabled::text FROM pg_trigger WHERE NOT tgisinternal ORDER BY 1";
    let rows = database.client().await.query(sql, &[]).await.expect("the catalogue");
    rows.iter().map(|row| row.get(0)).collect()
}
