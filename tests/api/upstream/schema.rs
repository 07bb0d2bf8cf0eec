//! The default schema: migration, the rights of each role, and the maintenance of ranks.

use gene_registry::registry::Timestamp;
use gene_registry::upstream::postgres::{connect, maintain, schema};
use gene_registry::upstream::{CatalogueGene, generate};
use tokio_postgres::Client;

use super::behaviour::{gene, now};
use super::database::{TestDatabase, config, empty_database, fresh_database};
use crate::support::database::seed;

#[tokio::test]
async fn migrating_again_changes_nothing() {
    let database = fresh_database().await;
    let again = schema::migrate(&mut database.client().await).await.expect("the schema");
    assert_eq!(again, schema::Migrated::default());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_migrations_wait_for_each_other_across_databases() {
    let (one, other) = (empty_database().await, empty_database().await);
    let mut running = Vec::new();
    for database in [&one, &one, &one, &other, &other] {
        let mut client = database.client().await;
        running.push(tokio::spawn(async move { schema::migrate(&mut client).await }));
    }
    let mut applied = Vec::new();
    for migration in running {
        applied.push(migration.await.expect("no panic").expect("the schema").applied);
    }
    applied.sort_unstable();
    assert_eq!(applied, [0, 0, 0, 5, 5]);
}

#[tokio::test]
async fn a_user_without_createrole_gets_a_warning_with_the_remedy() {
    let database = fresh_database().await;
    let admin = database.client().await;
    let owner = "gene_registry_test_owner";
    let _exists = admin.batch_execute(&format!("CREATE ROLE {owner} LOGIN")).await;
    let empty = empty_database().await;
    let name = empty.url.rsplit('/').next().expect("a name").to_owned();
    let grant = format!("GRANT CREATE ON DATABASE {name} TO {owner}");
    admin.batch_execute(&grant).await.expect("granted");
    let url = empty.reader_url.replace("gene_registry_reader", owner);
    let mut client = connect(&config(&url)).await.expect("a connection");
    let migrated = schema::migrate(&mut client).await.expect("the schema");
    assert_eq!(migrated.applied, 5);
    // The roles exist already: only their settings cannot be changed.
    assert_eq!(migrated.warnings.len(), 3, "{:?}", migrated.warnings);
}

async fn refused(client: &Client, sql: &str) {
    match client.batch_execute(sql).await {
        Ok(()) => panic!("allowed: {sql}"),
        // insufficient_privilege, read_only_sql_transaction
        Err(error) => {
            let code = error.code().map(|code| code.code().to_owned()).unwrap_or_default();
            assert!(["42501", "25006"].contains(&code.as_str()), "{sql}: {error:?}");
        }
    }
}

#[tokio::test]
async fn the_reader_reads_the_views_and_nothing_else() {
    let database = fresh_database().await;
    let reader = connect(&config(&database.reader_url)).await.expect("the reader");
    for view in ["gene", "arena_evaluation", "api_key", "change"] {
        let sql = format!("SELECT * FROM registry_read.{view}");
        reader.batch_execute(&sql).await.expect("a readable view");
    }
    reader.batch_execute("SET default_transaction_read_only = off").await.expect("allowed");
    for table in ["owner", "gene", "arena_evaluation", "api_key", "api_key_usage", "change"] {
        refused(&reader, &format!("SELECT * FROM registry.{table}")).await;
        refused(&reader, &format!("INSERT INTO registry.{table} DEFAULT VALUES")).await;
    }
    for sql in [
        "DELETE FROM registry_read.gene",
        "UPDATE registry_read.api_key SET name = ''",
        "INSERT INTO registry_read.change (scope) VALUES ('all')",
        "CREATE TABLE registry_read.mine ()",
        "SELECT registry.log_genes('{}', '{}')",
    ] {
        refused(&reader, sql).await;
    }
    let timeout = reader.query_one("SHOW statement_timeout", &[]).await.expect("a setting");
    assert_eq!(timeout.get::<_, String>(0), "600ms");
}

#[tokio::test]
async fn the_keys_role_writes_keys_and_nothing_else() {
    let database = fresh_database().await;
    let keys = connect(&config(&database.keys_url)).await.expect("the keys role");
    keys.batch_execute(
        "INSERT INTO registry.owner (handle) VALUES ('me');
        INSERT INTO registry.api_key (key_hash, prefix, owner, name)
            VALUES (decode(repeat('ab', 32), 'hex'), 'gr_12345678', 'me', 'first');
        UPDATE registry.api_key SET revoked_at = now();
        INSERT INTO registry.api_key_usage (key_hash) SELECT key_hash FROM registry.api_key",
    )
    .await
    .expect("writes to keys");
    for sql in [
        "DELETE FROM registry.api_key",
        "SELECT * FROM registry.gene",
        "SELECT * FROM registry.change",
        "INSERT INTO registry.change (scope) VALUES ('all')",
        "UPDATE registry.owner SET handle = 'you'",
        "SELECT * FROM registry_read.gene",
        "TRUNCATE registry.api_key",
    ] {
        refused(&keys, sql).await;
    }
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
