//! The guide to an existing registry in docs/upstream.md: its SQL maps a registry of another form, with
//! indexes that the searches use and a change log that names what changes.

use std::time::Duration;

use gene_registry::registry::{Fidelity, GeneFilter, GeneSearch, Page, Sort};
use gene_registry::upstream::postgres::search_statement;
use serde_json::{Value, json};
use tokio_postgres::Client;

use super::blocks::blocks;
use crate::commands::{gene_registry, run};
use crate::currency::always_fresh;
use crate::support::database::Database;
use crate::support::postgres::PostgresServer;
use crate::support::replica::{READER, Replica, config, long_timeouts};
use crate::support::wait::eventually;

const DOCUMENT: &str = "docs/upstream.md";
const TIMEOUT: Duration = Duration::from_secs(20);

/// Some rows of it.
const ROWS: &str = include_str!("../../guides/rows.sql");

/// The key in them.
const KEY: &str = "tok-4f1d7c0a9b3e5d6f";

pub(super) const NATIVE: &str = "10000000-0000-4000-8000-000000000001";
const EMPTY: &str = "10000000-0000-4000-8000-000000000002";
const DRAFT: &str = "10000000-0000-4000-8000-000000000003";
const DELETED: &str = "10000000-0000-4000-8000-000000000004";
const BROKEN: &str = "10000000-0000-4000-8000-000000000005";

/// A registry that the guide has mapped, with some rows.
pub(crate) async fn mapped() -> (Database<'static>, Client) {
    let database = PostgresServer::shared().await.create_database().await;
    let client = database.connect().await;
    for block in blocks().into_iter().filter(|block| block.document == DOCUMENT) {
        if let Some(sql) = &block.sql {
            let done = client.batch_execute(sql).await;
            done.unwrap_or_else(|error| panic!("{DOCUMENT}:{}: {error:?}", block.line));
        }
        for command in block.commands() {
            if command.starts_with("gene-registry migrate") {
                let words = command.split_whitespace().skip(1).take_while(|word| *word != "#");
                run(gene_registry(words).env("DATABASE_URL", database.url())).await.ok();
            }
        }
    }
    client.batch_execute(ROWS).await.unwrap();
    (database, client)
}

async fn replica(database: &Database<'_>) -> Replica {
    let mut config = config(&database.url_as(READER), None);
    long_timeouts(&mut config);
    always_fresh(&mut config);
    config.keys.accept_foreign = true;
    Replica::start(&config).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mapped_registry_is_served_and_its_changes_are_seen() {
    let (database, client) = mapped().await;
    let replica = replica(&database).await;
    let get = async |path: &str| replica.get(path, Some(KEY)).await;
    let page = get("/genes?domain=tools.find").await.json();
    let native = json!({
        "id": NATIVE, "name": "Find", "domain": "tools.find", "fidelity": "Native",
        "description": "new", "fitness_score": 1.5, "reputation_score": -2.0, "owner": "ana",
        "downloads": 9, "arena_rank": 0, "arena_history": [
            { "fitness_value": 1.5, "evaluated_at": "2026-01-31T12:00:00Z", "total_calls": 7 },
        ],
    });
    assert_eq!(page["data"][0], native);
    let ids: Vec<_> = page["data"].as_array().unwrap().iter().map(|gene| &gene["id"]).collect();
    assert_eq!(ids, [NATIVE, EMPTY], "no draft, nothing deleted, nothing broken");
    let phenotype = async |id: &str| get(&format!("/genes/{id}/phenotype")).await;
    let shown = phenotype(NATIVE).await.json();
    let expected = json!({ "input": { "type": "object" }, "output": { "type": "null" } });
    let version = &shown["compatibility"]["min_playground_version"];
    assert_eq!((&shown["phenotype"], version), (&expected, &json!("1.2.3")));
    for (id, status) in [(EMPTY, 200), (DRAFT, 404), (DELETED, 404), (BROKEN, 502)] {
        assert_eq!(phenotype(id).await.status, status, "{id}");
    }
    let insights = get("/arena/insights?domain=tools.find").await.json();
    let (count, top) = (&insights["gene_count"], &insights["top_genes"]);
    assert_eq!((count, &top[0]["name"]), (&json!(2), &json!("Find")), "{insights}");

    // A hash that is none breaks neither the lookups of keys nor the index.
    let hash = "INSERT INTO catalog.token VALUES ('none', 'team', NULL, true, 1, now())";
    client.batch_execute(hash).await.unwrap();
    assert_eq!(phenotype(NATIVE).await.status, 200);

    client.batch_execute("UPDATE catalog.author SET login = 'eva' WHERE id = 1").await.unwrap();
    client.batch_execute("UPDATE catalog.item_version SET summary = 'newer'").await.unwrap();
    eventually(TIMEOUT, "the new owner and description", || async {
        let gene = &get("/genes?domain=tools.find").await.json()["data"][0];
        (&gene["owner"], &gene["description"]) == (&json!("eva"), &json!("newer"))
    })
    .await;
    client.batch_execute("UPDATE catalog.item SET deleted_at = now()").await.unwrap();
    eventually(TIMEOUT, "the genes are gone", || async { phenotype(NATIVE).await.status == 404 })
        .await;
    client.batch_execute("UPDATE catalog.token SET disabled = true").await.unwrap();
    eventually(TIMEOUT, "the key is refused", || async { get("/genes").await.status == 401 }).await;
}

pub(super) async fn logged(client: &Client) -> Vec<String> {
    let sql = "WITH all_rows AS (DELETE FROM registry.change RETURNING scope)
        SELECT scope FROM all_rows ORDER BY scope COLLATE \"C\"";
    client.query(sql, &[]).await.unwrap().iter().map(|row| row.get(0)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_triggers_log_what_a_view_shows_and_nothing_else() {
    let (_database, client) = mapped().await;
    logged(&client).await;
    let gene = format!("gene:{NATIVE}");
    let both = |domain: &str| vec![format!("domain:{domain}"), gene.clone()];
    let hash = "SELECT sha256_hex FROM catalog.token";
    let hash: String = client.query_one(hash, &[]).await.unwrap().get(0);
    let key = vec![format!("key:{hash}")];
    let moved = [vec!["domain:a".to_owned()], both("tools.find")].concat();
    for (sql, expected) in [
        ("UPDATE catalog.item SET score = 9, karma = 9, installs = 9".to_owned(), vec![]),
        (format!("UPDATE catalog.item SET title = 'x' WHERE item_id = '{DELETED}'"), vec![]),
        (
            format!("UPDATE catalog.item SET title = 'x' WHERE item_id = '{NATIVE}'"),
            both("tools.find"),
        ),
        (format!("UPDATE catalog.item SET area = 'a' WHERE item_id = '{NATIVE}'"), moved),
        ("UPDATE catalog.item_version SET summary = 'x' WHERE version = 1".to_owned(), vec![]),
        ("UPDATE catalog.item_version SET summary = 'x' WHERE version = 2".to_owned(), both("a")),
        ("UPDATE catalog.author SET login = 'x' WHERE id = 2".to_owned(), vec![]),
        ("UPDATE catalog.token SET label = 'x'".to_owned(), vec![]),
        ("UPDATE catalog.token SET per_minute = 7".to_owned(), key.clone()),
        ("DELETE FROM catalog.token".to_owned(), key.clone()),
        (
            format!("INSERT INTO catalog.token VALUES ('{hash}', 'a', 'b', true, 1, now())"),
            key.clone(),
        ),
        ("INSERT INTO catalog.token VALUES ('none', 'a', 'b', true, 1, now())".to_owned(), vec![]),
        ("TRUNCATE catalog.token".to_owned(), vec!["all".to_owned()]),
        (
            "INSERT INTO catalog.item SELECT gen_random_uuid(), 't', 'many', 1, 1, 1, 1, 1, 1
                FROM generate_series(1, 1001)"
                .to_owned(),
            vec!["genes".to_owned()],
        ),
    ] {
        client.batch_execute(&sql).await.unwrap();
        assert_eq!(logged(&client).await, expected, "{sql}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_job_for_ranks_ranks_the_genes_of_a_domain_and_logs_nothing() {
    let (_database, client) = mapped().await;
    logged(&client).await;
    let is_job = |sql: &String| sql.starts_with("UPDATE catalog.item i SET place");
    let job = blocks().into_iter().filter_map(|block| block.sql).find(is_job).unwrap();
    client.batch_execute(&job).await.unwrap();
    let sql = "SELECT id, arena_rank FROM registry_read.gene WHERE fidelity IS NOT NULL
        ORDER BY arena_rank";
    let rows = client.query(sql, &[]).await.unwrap();
    let ranks: Vec<(String, i64)> =
        rows.iter().map(|row| (row.get::<_, uuid::Uuid>(0).to_string(), row.get(1))).collect();
    assert_eq!(ranks, [(NATIVE.to_owned(), 1), (EMPTY.to_owned(), 3)], "the broken one is second");
    assert_eq!(client.execute(job.as_str(), &[]).await.unwrap(), 0, "nothing is left to do");
    assert_eq!(logged(&client).await, [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_indexes_serve_every_search() {
    let (_database, client) = mapped().await;
    let many =
        "INSERT INTO catalog.item SELECT gen_random_uuid(), 't', 'area.' || n % 20, 1 + n % 3, 1,
            n % 997, n % 991, n % 983, 1 FROM generate_series(1, 20000) n;
        INSERT INTO catalog.match SELECT item_id, 1, now(), 1 FROM catalog.item";
    client.batch_execute(many).await.unwrap();
    for sql in
        ["VACUUM ANALYZE catalog.item", "VACUUM ANALYZE catalog.match", "SET enable_seqscan = off"]
    {
        client.batch_execute(sql).await.unwrap();
    }
    for domain in [None, "area.7".parse().ok()] {
        for fidelity in [None, Some(Fidelity::Native)] {
            for sort in Sort::ALL {
                let filter = GeneFilter { domain: domain.clone(), fidelity };
                let search = GeneSearch { filter, sort, page: Page::default() };
                let plan = query_plan(&client, &search).await;
                let mut nodes = Vec::new();
                collect(&plan, &mut nodes);
                for node in nodes {
                    let rows = node["Plan Rows"].as_f64().unwrap_or_default();
                    assert_ne!(node["Node Type"], "Seq Scan", "{search:?}: {plan:#}");
                    let is_small = node["Node Type"] != "Sort" || rows <= 50.0;
                    assert!(is_small, "{search:?}: {plan:#}");
                }
            }
        }
    }
    let key =
        "EXPLAIN (FORMAT JSON) SELECT FROM registry_read.api_key WHERE key_hash = sha256('x')";
    let plan: Value = client.query_one(key, &[]).await.unwrap().get(0);
    assert!(plan[0]["Plan"]["Node Type"].as_str().unwrap().contains("Index"), "{plan:#}");
}

async fn query_plan(client: &Client, search: &GeneSearch) -> Value {
    let mut values = vec!["20".to_owned(), "0".to_owned()];
    values.extend(search.filter.domain.as_ref().map(|domain| format!("'{domain}'")));
    values.extend(search.filter.fidelity.map(|fidelity| format!("'{}'", fidelity.as_str())));
    let prepare = format!("PREPARE search AS {}", search_statement(search));
    client.batch_execute(&prepare).await.unwrap();
    let explain = format!("EXPLAIN (FORMAT JSON) EXECUTE search ({})", values.join(", "));
    let row = client.query_one(&explain, &[]).await.unwrap();
    client.batch_execute("DEALLOCATE search").await.unwrap();
    row.get::<_, Value>(0)[0]["Plan"].clone()
}

fn collect<'a>(node: &'a Value, into: &mut Vec<&'a Value>) {
    into.push(node);
    for child in node["Plans"].as_array().into_iter().flatten() {
        collect(child, into);
    }
}

/// The rows of the side table.
async fn indexed(client: &Client) -> Vec<(String, String, Option<f64>)> {
    let sql = "SELECT item_id::text, area, score FROM catalog.gene_index ORDER BY item_id";
    let rows = client.query(sql, &[]).await.unwrap();
    rows.iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_side_table_follows_the_other_tables() {
    let (database, client) = mapped().await;
    let row = |id: &str, area: &str, score| (id.to_owned(), area.to_owned(), score);
    let (native, empty, broken) = (
        row(NATIVE, "tools.find", None),
        row(EMPTY, "tools.find", None),
        row(BROKEN, "tools.find", None),
    );
    assert_eq!(indexed(&client).await, [native, empty.clone(), broken.clone()]);
    for (sql, expected) in [
        (format!("INSERT INTO catalog.rating VALUES ('{NATIVE}', 2, 1)"), Some(2.0)),
        (format!("UPDATE catalog.rating SET score = 3 WHERE item_id = '{NATIVE}'"), Some(3.0)),
        (format!("DELETE FROM catalog.rating WHERE item_id = '{NATIVE}'"), None),
    ] {
        client.batch_execute(&sql).await.unwrap();
        assert_eq!(indexed(&client).await[0], row(NATIVE, "tools.find", expected), "{sql}");
    }
    let unpublish =
        format!("UPDATE catalog.item SET deleted_at = now() WHERE item_id = '{NATIVE}'");
    client.batch_execute(&unpublish).await.unwrap();
    assert_eq!(indexed(&client).await, [empty, broken]);

    // Two transactions change the same gene in two tables: the later one sees both changes.
    let other = database.connect().await;
    let publish = format!("UPDATE catalog.item SET deleted_at = NULL WHERE item_id = '{NATIVE}'");
    client.batch_execute(&format!("BEGIN; {publish}")).await.unwrap();
    let rate = format!("INSERT INTO catalog.rating VALUES ('{NATIVE}', 5, 1)");
    let rated = tokio::spawn(async move { other.batch_execute(&rate).await.map(|()| other) });
    eventually(TIMEOUT, "the second transaction waits", || async {
        let sql = "SELECT count(*) FROM pg_stat_activity
            WHERE datname = current_database() AND wait_event_type = 'Lock'";
        client.query_one(sql, &[]).await.unwrap().get::<_, i64>(0) == 1
    })
    .await;
    client.batch_execute("COMMIT").await.unwrap();
    rated.await.unwrap().unwrap();
    assert_eq!(indexed(&client).await[0], row(NATIVE, "tools.find", Some(5.0)));
}
