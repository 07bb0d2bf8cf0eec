//! The roles that `migrate` creates: each is tried with what it must be able to do, and with what it
//! must not.

use gene_registry::default_schema::migrate;
use gene_registry::upstream::postgres::connect;
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

use super::database::{TestDatabase, config, empty_database, fresh_database};
use crate::support::need_own_servers;
use crate::support::postgres::{PostgresOptions, PostgresServer};

/// A migrated database. Migrated again, since a copy of a database does not have its privileges.
async fn migrated() -> TestDatabase {
    let database = fresh_database().await;
    let again = migrate::migrate(&mut database.client().await).await.expect("the schema");
    assert_eq!(again, migrate::Migrated::default(), "a superuser may set up everything");
    database
}

async fn session(url: &str) -> Client {
    crate::support::postgres::connect(url).await
}

/// What every role may do in a database unless it is revoked.
const PRIVILEGES_OF_EVERYBODY: &[&str] = &[
    "CREATE TEMP TABLE mine (n int)",
    "CREATE TABLE public.mine (n int)",
    "CREATE TABLE mine (n int)",
    "CREATE SCHEMA mine",
    "CREATE FUNCTION public.mine() RETURNS int LANGUAGE sql AS 'SELECT 1'",
    "SELECT lo_create(0)",
    "SELECT lo_creat(-1)",
    "SELECT lo_from_bytea(0, 'x')",
    "SELECT lo_put(1, 0, 'x')",
    "SELECT lo_open(1, 131072)",
    "SELECT lo_unlink(1)",
    "SELECT lo_import('/etc/hostname')",
    "SELECT pg_advisory_lock(hashtext('gene-registry'), hashtext('migrate'))",
    "SELECT pg_advisory_lock(1)",
    "SELECT pg_advisory_lock_shared(1)",
    "SELECT pg_advisory_xact_lock(1)",
    "SELECT pg_advisory_xact_lock_shared(1, 2)",
    "SELECT pg_try_advisory_lock(1)",
    "SELECT pg_try_advisory_xact_lock_shared(1)",
    "SELECT pg_advisory_unlock_all()",
    "SELECT pg_cancel_backend(0)",
    "SELECT pg_terminate_backend(0)",
    "SELECT pg_terminate_backend(0, 1)",
    "SELECT pg_export_snapshot()",
    "SELECT pg_logical_emit_message(false, 'p', 'x')",
    "SELECT pg_logical_emit_message(true, 'p', 'x'::bytea)",
];

/// What only the owner of the schema, or a superuser, may do.
const PRIVILEGES_OF_OWNERS: &[&str] = &[
    "LOCK TABLE registry.refinery_schema_history IN SHARE MODE",
    "LOCK TABLE registry.refinery_schema_history IN ACCESS SHARE MODE",
    "SELECT * FROM registry.refinery_schema_history",
    "DELETE FROM registry.refinery_schema_history",
    "SELECT * FROM registry.gene",
    "UPDATE registry.gene SET name = ''",
    "INSERT INTO registry.gene DEFAULT VALUES",
    "TRUNCATE registry.arena_evaluation",
    "SELECT * FROM registry.change",
    "INSERT INTO registry.change (scope) VALUES ('all')",
    "SELECT * FROM registry.rank_due",
    "UPDATE registry.owner SET handle = 'you'",
    "DELETE FROM registry.owner",
    "DELETE FROM registry.api_key",
    "TRUNCATE registry.api_key",
    "DELETE FROM registry.api_key_usage",
    "ALTER TABLE registry.api_key DISABLE TRIGGER USER",
    "DROP FUNCTION registry.record_key_usage(bytea[], timestamptz[], bigint[])",
    "SELECT registry.log_genes('{}', '{}')",
    "SELECT registry.log_keys('{}')",
    "CREATE TABLE registry.mine (n int)",
    "CREATE VIEW registry_read.mine AS SELECT 1",
    "CREATE ROLE mine",
    "SELECT pg_read_file('/etc/hostname')",
    "COPY (SELECT 1) TO PROGRAM 'true'",
];

/// What only the role that manages keys may do.
const PRIVILEGES_ON_KEYS: &[&str] = &[
    "SELECT * FROM registry.api_key",
    "UPDATE registry.api_key SET revoked_at = NULL",
    "UPDATE registry.api_key SET rate_limit_per_minute = 1000000, scopes = '{admin}'",
    "INSERT INTO registry.api_key (key_hash, prefix, owner, name) VALUES ('', 'p', 'o', 'n')",
    "SELECT key_hash FROM registry.api_key FOR UPDATE",
    "LOCK TABLE registry.api_key IN SHARE ROW EXCLUSIVE MODE",
    "SELECT * FROM registry.api_key_usage",
    "UPDATE registry.api_key_usage SET request_count = 0",
    "INSERT INTO registry.api_key_usage (key_hash) VALUES ('')",
    "SELECT * FROM registry.owner",
    "INSERT INTO registry.owner (handle) VALUES ('you')",
];

const PRIVILEGES_OF_READERS: &[&str] = &[
    "SELECT * FROM registry_read.gene",
    "SELECT * FROM registry_read.arena_evaluation",
    "SELECT * FROM registry_read.api_key",
    "SELECT * FROM registry_read.change",
];

const RECORD_USAGE: &str = "SELECT registry.record_key_usage(array_agg(sha256(n::text::bytea)),
    array_agg(now()), array_agg(n::bigint)) FROM generate_series(1, 3) n";

const WRITES_TO_VIEWS: &[&str] = &[
    "DELETE FROM registry_read.gene",
    "UPDATE registry_read.api_key SET revoked_at = NULL",
    "INSERT INTO registry_read.change (scope) VALUES ('all')",
    "LOCK TABLE registry_read.gene IN ROW EXCLUSIVE MODE",
    "LOCK TABLE registry_read.gene IN SHARE ROW EXCLUSIVE MODE",
    "TRUNCATE registry.gene",
];

/// Checks that the session lacks the privilege for each statement, also in a transaction that may
/// write.
async fn assert_forbidden(session: &Client, statements: &[&[&str]]) {
    let writable = "SET default_transaction_read_only = off";
    session.batch_execute(writable).await.expect("a setting");
    let mut allowed = Vec::new();
    for statement in statements.concat() {
        // Two statements are a transaction, which LOCK requires.
        let result = session.batch_execute(&format!("SELECT 1; {statement}")).await;
        let code = result.err().and_then(|error| error.code().cloned());
        if code != Some(SqlState::INSUFFICIENT_PRIVILEGE) {
            allowed.push((statement, code));
        }
    }
    assert!(allowed.is_empty(), "{allowed:#?}");
}

#[tokio::test]
async fn the_reader_can_select_the_views_and_nothing_else() {
    let database = migrated().await;
    let reader = session(&database.reader_url).await;
    for statement in PRIVILEGES_OF_READERS {
        reader.batch_execute(statement).await.expect("a readable view");
    }
    for (setting, value) in
        [("statement_timeout", "600ms"), ("default_transaction_read_only", "on")]
    {
        let row = reader.query_one(&format!("SHOW {setting}"), &[]).await.expect("a setting");
        assert_eq!(row.get::<_, String>(0), value, "{setting}");
    }
    let forbidden = [
        PRIVILEGES_OF_EVERYBODY,
        PRIVILEGES_OF_OWNERS,
        PRIVILEGES_ON_KEYS,
        WRITES_TO_VIEWS,
        &[RECORD_USAGE],
    ];
    assert_forbidden(&reader, &forbidden).await;
}

async fn stored_keys(client: &Client) -> String {
    let sql = "SELECT string_agg(k::text, ' ' ORDER BY prefix) FROM registry.api_key k";
    client.query_one(sql, &[]).await.expect("keys").get(0)
}

#[tokio::test]
async fn the_usage_role_records_the_use_of_keys_and_nothing_else() {
    let database = migrated().await;
    let owner = database.client().await;
    let keys = "INSERT INTO registry.owner (handle) VALUES ('me');
        INSERT INTO registry.api_key (key_hash, prefix, owner, name, revoked_at)
            SELECT sha256(n::text::bytea), 'gr_' || n, 'me', 'n', now() FROM generate_series(2, 9) n";
    owner.batch_execute(keys).await.expect("keys");
    let before = stored_keys(&owner).await;

    let usage = session(&database.usage_url).await;
    for _ in 0..2 {
        usage.batch_execute(RECORD_USAGE).await.expect("recorded");
    }
    // Numbers and times that would hide later use, or stop its recording.
    let hostile = "SELECT registry.record_key_usage(ARRAY[sha256('4'), sha256('5'), sha256('6')],
        ARRAY['infinity', now() + interval '9 years', NULL]::timestamptz[],
        ARRAY[-1, 9223372036854775807, NULL]::bigint[])";
    for _ in 0..2 {
        usage.batch_execute(hostile).await.expect("recorded");
    }
    let sql =
        "SELECT k.prefix, u.request_count, u.last_used_at <= now() FROM registry.api_key_usage u
        JOIN registry.api_key k USING (key_hash) ORDER BY 1";
    let recorded: Vec<(String, i64, Option<bool>)> = (owner.query(sql, &[]).await.expect("rows"))
        .iter()
        .map(|row| (row.get(0), row.get(1), row.get(2)))
        .collect();
    let expected = [
        ("gr_2", 4, Some(true)),
        ("gr_3", 6, Some(true)),
        ("gr_4", 0, Some(true)),
        ("gr_5", i64::MAX, Some(true)),
        ("gr_6", 0, Some(true)),
    ];
    assert_eq!(recorded, expected.map(|(prefix, count, past)| (prefix.to_owned(), count, past)));

    let forbidden = [
        PRIVILEGES_OF_EVERYBODY,
        PRIVILEGES_OF_OWNERS,
        PRIVILEGES_ON_KEYS,
        PRIVILEGES_OF_READERS,
        WRITES_TO_VIEWS,
    ];
    assert_forbidden(&usage, &forbidden).await;
    assert_eq!(stored_keys(&owner).await, before);
}

#[tokio::test]
async fn the_keys_role_manages_keys_and_nothing_else() {
    let database = migrated().await;
    let keys = session(&database.keys_url).await;
    for statement in [
        "INSERT INTO registry.owner (handle) VALUES ('me')",
        "INSERT INTO registry.api_key (key_hash, prefix, owner, name)
            VALUES (decode(repeat('ab', 32), 'hex'), 'gr_12345678', 'me', 'first')",
        "SELECT key_hash FROM registry.api_key FOR UPDATE",
        "UPDATE registry.api_key SET revoked_at = now()",
        "BEGIN; LOCK TABLE registry.api_key IN SHARE ROW EXCLUSIVE MODE; COMMIT",
        // As release 1.0 records the use of keys.
        "INSERT INTO registry.api_key_usage (key_hash) SELECT key_hash FROM registry.api_key",
        "SELECT * FROM registry.api_key_usage",
        RECORD_USAGE,
    ] {
        keys.batch_execute(statement).await.unwrap_or_else(|error| panic!("{statement}: {error}"));
    }
    let forbidden =
        [PRIVILEGES_OF_EVERYBODY, PRIVILEGES_OF_OWNERS, PRIVILEGES_OF_READERS, WRITES_TO_VIEWS];
    assert_forbidden(&keys, &forbidden).await;
}

/// Undoes what this release changes in the schema and in the privileges of everybody.
const AS_IN_1_0: &str = "DROP FUNCTION registry.record_key_usage(bytea[], timestamptz[], bigint[]);
    DELETE FROM registry.refinery_schema_history WHERE version = 6;
    GRANT EXECUTE ON FUNCTION lo_create(oid), pg_advisory_lock(bigint), pg_try_advisory_lock(int, int),
        pg_cancel_backend(int), pg_terminate_backend(int, bigint), pg_export_snapshot(),
        pg_logical_emit_message(boolean, text, text) TO PUBLIC;
    GRANT CREATE ON SCHEMA public TO PUBLIC";

#[tokio::test]
async fn an_existing_installation_is_restricted_and_its_own_roles_go_on() {
    let database = fresh_database().await;
    let owner = database.client().await;
    let app = "gene_registry_test_app";
    let _exists = owner.batch_execute(&format!("CREATE ROLE {app} LOGIN")).await;
    owner.batch_execute(AS_IN_1_0).await.expect("the older schema");
    let grants = format!(
        "GRANT USAGE ON SCHEMA registry TO {app};
        GRANT SELECT, INSERT, UPDATE ON registry.api_key, registry.api_key_usage TO {app}"
    );
    owner.batch_execute(&grants).await.expect("a role of the operator's own");

    for applied in [1, 0] {
        let migrated = migrate::migrate(&mut database.client().await).await.expect("the schema");
        assert_eq!(migrated, migrate::Migrated { applied, warnings: vec![] });
    }
    assert_forbidden(&session(&database.reader_url).await, &[PRIVILEGES_OF_EVERYBODY]).await;
    let app = session(&database.reader_url.replace("gene_registry_reader", app)).await;
    app.batch_execute(RECORD_USAGE).await.expect("it could record use before");
}

#[tokio::test]
async fn nobody_without_privileges_can_keep_a_migration_waiting() {
    let database = migrated().await;
    let reader = session(&database.reader_url).await;
    reader.batch_execute("BEGIN").await.expect("a transaction");
    for statement in PRIVILEGES_OF_READERS {
        reader.batch_execute(statement).await.expect("a readable view");
    }
    // The lock of release 1.0, held by a superuser.
    let holder = database.client().await;
    let lock = "SELECT pg_advisory_lock(hashtext('gene-registry'), hashtext('migrate'))";
    holder.batch_execute(lock).await.expect("the lock");
    let mut client = database.client().await;
    client.batch_execute("SET statement_timeout = '60s'").await.expect("a setting");
    let migrated = migrate::migrate(&mut client).await.expect("it does not wait");
    assert_eq!(migrated, migrate::Migrated::default());
}

#[tokio::test]
async fn a_user_who_may_not_change_roles_gets_warnings_with_remedies() {
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
    for applied in [7, 0] {
        let migrated = migrate::migrate(&mut client).await.expect("the schema");
        assert_eq!(migrated.applied, applied);
        // The roles exist already, with their settings.
        for (words, times) in [
            ("ALTER ROLE", 0),
            (&*format!("run: REVOKE TEMPORARY ON DATABASE {name} FROM PUBLIC;"), 1),
            ("create large objects, take advisory locks, end their own sessions", 1),
        ] {
            let found = migrated.warnings.iter().filter(|warning| warning.contains(words));
            assert_eq!(found.count(), times, "{words}: {:?}", migrated.warnings);
        }
    }
    // What a superuser does once stays, and the owner can still load the registry.
    let done = migrate::migrate(&mut empty.client().await).await.expect("the schema");
    assert_eq!(done, migrate::Migrated::default());
    let again = migrate::migrate(&mut client).await.expect("the schema");
    assert_eq!(again, migrate::Migrated::default());
    client.batch_execute("CREATE TEMP TABLE stage ()").await.expect("as seed does");
    assert_forbidden(&session(&empty.reader_url).await, &[PRIVILEGES_OF_EVERYBODY]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_migration_succeeds_where_the_owner_cannot_create_roles() {
    need_own_servers!();
    let server = PostgresServer::start(PostgresOptions::default()).await;
    let database = server.create_database().await;
    let admin = database.connect().await;
    admin.batch_execute("CREATE ROLE plain LOGIN").await.expect("a role");
    let owned = format!("ALTER DATABASE {} OWNER TO plain", database.name());
    admin.batch_execute(&owned).await.expect("an owner");
    let mut client = connect(&config(&database.url_as("plain"))).await.expect("a connection");
    let migrated = migrate::migrate(&mut client).await.expect("the schema");
    assert_eq!(migrated.applied, 7);
    for role in ["gene_registry_reader", "gene_registry_usage", "gene_registry_keys"] {
        let remedy = format!("As a superuser run: CREATE ROLE {role} LOGIN PASSWORD '…';");
        let is_there = migrated.warnings.iter().any(|warning| warning.contains(&remedy));
        assert!(is_there, "{role}: {:?}", migrated.warnings);
        admin.batch_execute(&format!("CREATE ROLE {role} LOGIN")).await.expect("a role");
    }
    // Their settings are a superuser's to change. Once that is done, nothing warns of them.
    for missing in [3, 0] {
        let warnings = migrate::migrate(&mut client).await.expect("the schema").warnings;
        let begin = "this user may not change the role gene_registry_reader. As a superuser run: ";
        let remedies: Vec<_> =
            warnings.iter().filter_map(|warning| warning.strip_prefix(begin)).collect();
        assert_eq!(remedies.len(), missing, "{warnings:?}");
        admin.batch_execute(&remedies.concat()).await.expect("settings");
    }
    let reader = session(&database.url_as("gene_registry_reader")).await;
    reader.batch_execute("SELECT * FROM registry_read.gene").await.expect("a readable view");
    let usage = session(&database.url_as("gene_registry_usage")).await;
    usage.batch_execute(RECORD_USAGE).await.expect("it records");
}
