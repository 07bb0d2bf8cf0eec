//! The triggers that `registry.watch_genes` and `registry.watch_keys` create on existing tables:
//! unusable queries are refused at once, and later failures do not make writes fail.

use std::future::poll_fn;
use std::sync::{Arc, Mutex};

use tokio_postgres::error::SqlState;
use tokio_postgres::{AsyncMessage, Client, NoTls};

use super::existing_registry::{NATIVE, logged, mapped};
use crate::commands::{gene_registry, run};

/// A connection, and the texts of the warnings that it gets.
async fn with_warnings(url: &str) -> (Client, Arc<Mutex<Vec<String>>>) {
    let (client, mut connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    let warnings = Arc::new(Mutex::new(Vec::new()));
    let received = Arc::clone(&warnings);
    tokio::spawn(async move {
        while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
            if let AsyncMessage::Notice(notice) = message
                && notice.severity() == "WARNING"
            {
                received.lock().unwrap().push(notice.message().to_owned());
            }
        }
    });
    (client, warnings)
}

/// A function with its table, a query, and what the error says.
const UNUSABLE: [(&str, &str, &str); 8] = [
    (GENES, "SELECT item_id FROM changed", "2 columns specified"),
    (GENES, "SELECT 1::bigint, area FROM changed", "bigint instead of uuid"),
    (GENES, "SELECT item_id, kind FROM changed", "smallint instead of text"),
    (GENES, "SELECT item_id, aera FROM changed", "\"aera\" does not exist"),
    (GENES, "selec nonsense", "syntax error at or near \"selec\""),
    (GENES, "SELECT item_id, area FROM changed;", "at or near \";\""),
    (GENES, "SELECT item_id, area FROM item", "\"item\" does not exist"),
    (KEYS, "SELECT sha256_hex FROM changed", "text instead of bytea"),
];

const GENES: &str = "watch_genes('catalog.item'";
const KEYS: &str = "watch_keys('catalog.token'";

async fn assert_refused(client: &Client, (watch, query, said): (&str, &str, &str)) {
    let call = format!("SELECT registry.{watch}, $query${query}$query$)");
    let error = client.batch_execute(&call).await.expect_err(query);
    let error = error.as_db_error().unwrap();
    let text = error.message();
    assert!(text.starts_with("the query for catalog.") && text.contains(said), "{error:?}");
    let columns = if watch == GENES { "id uuid, domain text" } else { "hash bytea" };
    assert!(error.hint().unwrap().contains(columns), "{error:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_query_that_the_triggers_cannot_use_is_refused() {
    let (_database, client) = mapped().await;
    for unusable in UNUSABLE {
        assert_refused(&client, unusable).await;
    }
    logged(&client).await;
    // The triggers of the guide are as they were.
    let update = format!("UPDATE catalog.item SET title = 'x' WHERE item_id = '{NATIVE}'");
    client.batch_execute(&update).await.unwrap();
    assert_eq!(logged(&client).await, ["domain:tools.find".to_owned(), format!("gene:{NATIVE}")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn domains_types_of_strings_and_comments_are_accepted() {
    let (_database, client) = mapped().await;
    let sql = format!(
        "CREATE DOMAIN catalog.base AS uuid;
        CREATE DOMAIN catalog.id AS catalog.base;
        SELECT registry.watch_genes('catalog.item',
            'SELECT item_id::catalog.id, area::varchar(10), title FROM changed -- of all genes');
        DELETE FROM registry.change;
        UPDATE catalog.item SET title = 'x' WHERE item_id = '{NATIVE}'"
    );
    for statement in sql.split(';') {
        client.batch_execute(statement).await.unwrap();
    }
    assert_eq!(logged(&client).await, ["domain:tools.find".to_owned(), format!("gene:{NATIVE}")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_value_that_equals_the_old_one_but_is_shown_otherwise_is_logged() {
    let (_database, client) = mapped().await;
    let sql = "CREATE COLLATION catalog.nocase
            (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
        SELECT registry.watch_genes('catalog.item',
            'SELECT item_id, area, title COLLATE catalog.nocase, score::float8, kind AS before,
                ''{}''::json FROM changed')";
    client.batch_execute(sql).await.unwrap();
    let expected = ["domain:tools.find".to_owned(), format!("gene:{NATIVE}")];
    for (change, expected) in [
        ("title = upper(title)", &expected[..]),
        ("title = upper(title)", &[]),
        ("kind = kind, score = score", &[]),
    ] {
        logged(&client).await;
        let update = format!("UPDATE catalog.item SET {change} WHERE item_id = '{NATIVE}'");
        client.batch_execute(&update).await.unwrap();
        assert_eq!(logged(&client).await, expected, "{change}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_query_that_fails_logs_everything_and_the_write_succeeds() {
    let (database, owner) = mapped().await;
    let (client, warnings) = with_warnings(&database.url()).await;
    let update = "UPDATE catalog.item SET title = title || 'x'";
    let insert = "INSERT INTO catalog.token VALUES (gen_random_uuid(), 'a', 'b', true, 1, now())";
    for (watch, write, scope, reason) in [
        ("genes('catalog.item', 'SELECT title::uuid, area FROM changed')", update, "genes", "uuid"),
        (
            "genes('catalog.item', 'SELECT nullif(item_id, item_id), title FROM changed')",
            update,
            "genes",
            "the id of a gene is null",
        ),
        (
            "keys('catalog.token', 'SELECT decode(sha256_hex, ''hex'') FROM changed')",
            insert,
            "keys",
            "invalid hexadecimal digit",
        ),
        (
            "keys('catalog.token', 'SELECT NULL::bytea, sha256_hex FROM changed')",
            insert,
            "keys",
            "the hash of a key is null",
        ),
    ] {
        client.batch_execute(&format!("SELECT registry.watch_{watch}")).await.unwrap();
        logged(&owner).await;
        client.batch_execute(write).await.unwrap_or_else(|error| panic!("{watch}: {error:?}"));
        assert_eq!(logged(&owner).await, [scope], "{watch}");
        let warnings = std::mem::take(&mut *warnings.lock().unwrap());
        assert!(warnings.len() == 1 && warnings[0].contains(reason), "{watch}: {warnings:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_column_that_is_renamed_later_does_not_make_writes_fail() {
    let (_database, client) = mapped().await;
    logged(&client).await;
    client.batch_execute("ALTER TABLE catalog.token RENAME may_read TO readable").await.unwrap();
    client.batch_execute("UPDATE catalog.token SET per_minute = 8").await.unwrap();
    assert_eq!(logged(&client).await, ["keys"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gene_without_a_domain_is_logged_by_its_id() {
    let (_database, client) = mapped().await;
    let query = "SELECT item_id, nullif(area, 'none'), title FROM changed";
    let watch = format!("SELECT registry.watch_genes('catalog.item', $q${query}$q$)");
    client.batch_execute(&watch).await.unwrap();
    logged(&client).await;
    let update = format!("UPDATE catalog.item SET area = 'none' WHERE item_id = '{NATIVE}'");
    client.batch_execute(&update).await.unwrap();
    assert_eq!(logged(&client).await, ["domain:tools.find".to_owned(), format!("gene:{NATIVE}")]);
    client.batch_execute("UPDATE catalog.item SET title = 'x' WHERE area = 'none'").await.unwrap();
    assert_eq!(logged(&client).await, [format!("gene:{NATIVE}")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_serialization_failure_reaches_the_application() {
    let (_database, client) = mapped().await;
    let sql = "CREATE FUNCTION catalog.conflict(uuid) RETURNS uuid LANGUAGE plpgsql AS
            'BEGIN RAISE EXCEPTION USING ERRCODE = ''40001''; END';
        SELECT registry.watch_genes('catalog.item',
            'SELECT catalog.conflict(item_id), area FROM changed')";
    client.batch_execute(sql).await.unwrap();
    let error = client.batch_execute("UPDATE catalog.item SET title = 'x'").await.unwrap_err();
    assert_eq!(error.code(), Some(&SqlState::T_R_SERIALIZATION_FAILURE));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upgrade_replaces_the_functions_of_existing_triggers() {
    let (database, client) = mapped().await;
    // As in the version before: a query is not checked, and its failure is that of the write.
    let before = "CREATE OR REPLACE FUNCTION registry.watch_genes(watched regclass, query text)
            RETURNS void LANGUAGE sql AS
            $$ SELECT registry.create_log_triggers(watched, 'log_changed_genes', query) $$;
        CREATE OR REPLACE FUNCTION registry.log_changed_genes() RETURNS trigger
            LANGUAGE plpgsql AS $$ BEGIN EXECUTE TG_ARGV[0]; RETURN NULL; END $$;
        SELECT registry.watch_genes('catalog.item', 'selec nonsense')";
    client.batch_execute(before).await.unwrap();
    let update = "UPDATE catalog.item SET title = 'x'";
    client.batch_execute(update).await.unwrap_err();

    let migrate = gene_registry(["migrate", "--only", "change-log"]);
    run(migrate.env("DATABASE_URL", database.url())).await.ok();

    logged(&client).await;
    client.batch_execute(update).await.unwrap();
    assert_eq!(logged(&client).await, ["genes"]);
    assert_refused(&client, UNUSABLE[4]).await;
}
