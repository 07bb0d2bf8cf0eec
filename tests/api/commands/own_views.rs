//! `migrate --only`: what a registry with views of its own gets, and what it is told.

use std::time::Duration;

use super::run_on;
use crate::support::database::{Database, READER};
use crate::support::need_own_servers;
use crate::support::postgres::{PostgresOptions, PostgresServer, connect};
use crate::support::replica::migrated;

const VIEWS: &str = "create schema registry_read;
    create view registry_read.gene as select 1 as id;
    create view registry_read.arena_evaluation as select 1 as gene_id;
    create view registry_read.api_key as select 1 as key_hash";

const TIMEOUT: Duration = Duration::from_secs(60);

const PARTS: [&str; 3] = ["migrate", "--only", "roles,change-log"];

async fn relations(database: &Database<'_>) -> String {
    let sql = "select string_agg(c.oid::regclass::text, ' ' order by c.oid::regclass::text)
        from pg_class c where relnamespace in (to_regnamespace('registry'),
            to_regnamespace('registry_read')) and relkind in ('r', 'v')";
    database.connect().await.query_one(sql, &[]).await.unwrap().get(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn it_creates_the_change_log_and_the_reader_and_nothing_else() {
    let database = PostgresServer::shared().await.create_database().await;
    let client = database.connect().await;
    client.batch_execute(VIEWS).await.unwrap();
    for _ in 0..2 {
        let done = run_on(&database.url(), PARTS).await.ok();
        assert!(done.stdout.contains("registry_read.change"), "{done:?}");
        let roles = "Roles with privileges in this database: gene_registry_reader.\n";
        assert!(done.stdout.ends_with(roles), "{done:?}");
        assert_eq!(done.stderr, "");
    }
    let found = "registry.change registry_read.api_key registry_read.arena_evaluation \
                 registry_read.change registry_read.gene";
    assert_eq!(relations(&database).await, found);
    let sql = "select string_agg(c.relname, ' ' order by relname) from pg_class c
        where relkind in ('r', 'v') and relnamespace::regnamespace::text like 'registry%'
            and has_table_privilege('gene_registry_reader', c.oid, 'select')";
    let readable: String = client.query_one(sql, &[]).await.unwrap().get(0);
    assert_eq!(readable, "api_key arena_evaluation change gene", "the views, not the table");
    // Other applications may use the database: nothing is revoked from PUBLIC.
    let sql = "select has_database_privilege('public', current_database(), 'temporary')";
    assert!(client.query_one(sql, &[]).await.unwrap().get::<_, bool>(0));
    let sql = "select count(*) from pg_proc where pronamespace = 'registry'::regnamespace
        and has_function_privilege('public', oid, 'execute')";
    assert_eq!(client.query_one(sql, &[]).await.unwrap().get::<_, i64>(0), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn repeating_it_waits_for_no_open_transaction() {
    let database = PostgresServer::shared().await.create_database().await;
    database.connect().await.batch_execute(VIEWS).await.unwrap();
    run_on(&database.url(), PARTS).await.ok();
    let client = database.connect().await;
    let open = "begin; insert into registry.change (scope) values ('genes');
        select from registry_read.change";
    client.batch_execute(open).await.unwrap();
    let repeated = tokio::time::timeout(TIMEOUT, run_on(&database.url(), PARTS)).await;
    repeated.expect("it does not wait").ok();
}

#[tokio::test(flavor = "multi_thread")]
async fn views_that_come_later_are_granted_when_it_is_repeated() {
    let database = PostgresServer::shared().await.create_database().await;
    let refused = run_on(&database.url(), ["migrate", "--only", "roles"]).await.failed(1, &[]);
    assert!(refused.stderr.contains("create them first"), "{refused:?}");
    database.connect().await.batch_execute(VIEWS).await.unwrap();
    for part in ["roles", "change-log", "roles"] {
        run_on(&database.url(), ["migrate", "--only", part]).await.ok();
    }
    let reader = connect(&database.url_as(READER)).await;
    reader.query("select * from registry_read.change", &[]).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_default_schema_is_not_created_beside_views_of_another_one() {
    let database = PostgresServer::shared().await.create_database().await;
    database.connect().await.batch_execute(VIEWS).await.unwrap();
    let before = relations(&database).await;
    let refused = run_on(&database.url(), ["migrate"]).await.failed(1, &[]);
    assert!(refused.stderr.contains("migrate --only roles,change-log"), "{refused:?}");
    assert_eq!(relations(&database).await, before);
    run_on(&database.url(), ["migrate", "--only", "views"]).await.failed(2, &[]);
}

#[tokio::test(flavor = "multi_thread")]
async fn maintain_names_what_to_do_instead_and_changes_nothing() {
    let database = PostgresServer::shared().await.create_database().await;
    let client = database.connect().await;
    client.batch_execute(VIEWS).await.unwrap();
    run_on(&database.url(), ["migrate", "--only", "change-log"]).await.ok();
    let old = "insert into registry.change (scope, changed_at)
        values ('genes', now() - interval '3 days')";
    client.batch_execute(old).await.unwrap();
    // Repeating it would not help.
    for command in [&["maintain"][..], &["maintain", "--every=1s"]] {
        let refused = run_on(&database.url(), command).await.failed(1, &[]);
        for words in ["for the default schema only", "DELETE in step 4 of docs/upstream.md"] {
            assert!(refused.stderr.contains(words), "{refused:?}");
        }
        assert!(!refused.stderr.contains("gene-registry migrate"), "{refused:?}");
    }
    let kept = client.query_one("select count(*) from registry.change", &[]).await.unwrap();
    assert_eq!(kept.get::<_, i64>(0), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn with_the_default_schema_it_changes_nothing() {
    let database = migrated(PostgresServer::shared().await).await;
    let before = relations(&database).await;
    let done = run_on(&database.url(), PARTS).await.ok();
    assert!(done.stdout.contains("gene_registry_keys"), "{done:?}");
    assert_eq!(relations(&database).await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_owner_without_rights_gets_the_remedies() {
    need_own_servers!();
    let server = PostgresServer::start(PostgresOptions::default()).await;
    let database = server.create_database().await;
    let admin = database.connect().await;
    admin.batch_execute("create role plain login").await.unwrap();
    let url = database.url_as("plain");
    let grant = format!("GRANT CREATE ON DATABASE {} TO plain", database.name());
    for command in [&["migrate"][..], &PARTS] {
        let refused = run_on(&url, command).await.failed(1, &[]);
        assert!(refused.stderr.contains(&format!(" run: {grant}; then run")), "{refused:?}");
    }
    let own = format!("{grant}; set role plain; {VIEWS}");
    admin.batch_execute(&own).await.unwrap();
    admin.batch_execute("reset role").await.unwrap();
    let warned = run_on(&url, PARTS).await.ok();
    assert!(!warned.stdout.contains("gene_registry_reader"), "it does not exist: {warned:?}");
    let (_, remedy) = warned.stderr.split_once("lacks CREATEROLE. As a superuser run: ").unwrap();
    let (sql, _) = remedy.split_once(" then run the same command again").unwrap();
    admin.batch_execute(sql).await.unwrap();
    let done = run_on(&url, PARTS).await.ok();
    assert_eq!(done.stderr, "", "the remedy was complete");
}
