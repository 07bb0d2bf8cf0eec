//! A registry with every optional column empty, and with rows that violate the contract: responses
//! still match the served document.

use gene_registry::keys::ApiKey;
use serde_json::{Value, json};

use super::assert_refusal;
use crate::support::database::Database;
use crate::support::document::StrictDocument;
use crate::support::postgres::PostgresServer;
use crate::support::redis::RedisServer;
use crate::support::replica::{Replica, config, long_timeouts};

/// Tables with other types and without constraints.
const TABLES: &str = "
    create schema registry_read;
    create table registry_read.gene (id uuid, name varchar, domain varchar, fidelity varchar,
        description text, owner varchar, fitness_score numeric, reputation_score float4,
        downloads numeric, arena_rank int, phenotype json, install_command varchar,
        min_playground_version varchar, required_fidelity varchar);
    create table registry_read.arena_evaluation (gene_id uuid, fitness_value numeric,
        evaluated_at timestamptz, total_calls numeric);
    create table registry_read.api_key (key_hash bytea, prefix varchar, owner varchar,
        name varchar, scopes varchar[], rate_limit_per_minute bigint, created_at timestamptz,
        expires_at timestamptz, revoked_at timestamptz);";

/// Genes 1 to 6 keep the contract: empty, zero, full, and at the bounds of numbers.
const GENES: &str = r#"
    insert into registry_read.gene (id, fidelity) values (uuid(lpad('1', 32, '0')), 'Native');
    insert into registry_read.gene values
        (uuid(lpad('2', 32, '0')), '', '', 'Hybrid', '', '', 0, 0, 0, 0, '{}', '', '', ''),
        (uuid(lpad('3', 32, '0')), 'c', 'd', 'Wrapped', 'x', 'o', 2.5, -1, 7, 1,
            '{"inputSchema": {"type": "array"}, "output": null, "more": 1}', 'get c', '1.2', 'Native'),
        (uuid(lpad('4', 32, '0')), 'e', 'd', 'Native', 'x', 'o', 0.5, 3e38, 1e30, 2147483647,
            '[1]', E'rm -rf /\nx', '1', NULL),
        (uuid(lpad('5', 32, '0')), repeat('🧬', 5000), 'd', 'Hybrid', E'\t"\\\u2028', 'o', 0.25, 0,
            9007199254740991, -5, '{"input": {"é": [null, 1e300]}, "output": {}}', NULL, NULL, NULL),
        (uuid(lpad('6', 32, '0')), 'z', 'd', 'Native', NULL, NULL, NULL, NULL, -4, NULL, 'null',
            NULL, NULL, NULL),
        (uuid(lpad('a', 32, '0')), 'bad', 'd', 'native', '', '', 9, 9, 9, 1, '{}', '', '', ''),
        (uuid(lpad('b', 32, '0')), 'bad', 'd', NULL, '', '', 9, 9, 9, 1, '{}', '', '', ''),
        (uuid(lpad('c', 32, '0')), 'bad', 'd', 'Native', '', '', 'NaN', 9, 9, 1, '{}', '', '', ''),
        (uuid(lpad('d', 32, '0')), 'bad', 'd', 'Native', '', '', -1, 9, 9, 1, '{}', '', '', ''),
        (uuid(lpad('e', 32, '0')), 'bad', 'bad', 'Native', '', '', 9, 'inf', 9, 1, '{}', '', '', '');
    insert into registry_read.arena_evaluation values
        (uuid(lpad('3', 32, '0')), 2.5, '2026-01-02 03:04:05.678+02', NULL),
        (uuid(lpad('3', 32, '0')), 0, '2026-01-01', 1e30),
        (uuid(lpad('3', 32, '0')), 'NaN', '2026-01-01', 1),
        (uuid(lpad('3', 32, '0')), 1, NULL, 1),
        (uuid(lpad('4', 32, '0')), 0.5, '2026-01-01', -3),
        (uuid(lpad('a', 32, '0')), 9, '2026-01-01', 1);"#;

struct ExistingRegistry {
    _database: Database<'static>,
    replicas: [Replica; 2],
    key: String,
}

impl ExistingRegistry {
    async fn start() -> Self {
        let database = PostgresServer::shared().await.create_database().await;
        let client = database.connect().await;
        client.batch_execute(TABLES).await.unwrap();
        client.batch_execute(GENES).await.unwrap();
        let key = ApiKey::generate().unwrap();
        let insert = "insert into registry_read.api_key (key_hash, scopes, rate_limit_per_minute)
            values ($1, '{read}', 100000)";
        client.execute(insert, &[&key.hash().0.as_slice()]).await.unwrap();
        let (redis, prefix) = (RedisServer::shared().await, RedisServer::new_prefix());
        let mut with_redis = config(&database.url(), Some((&redis.url(), &prefix)));
        long_timeouts(&mut with_redis);
        let mut without = with_redis.clone();
        without.redis.url = None;
        let replicas = [Replica::start(&with_redis).await, Replica::start(&without).await];
        Self { _database: database, replicas, key: key.expose().to_owned() }
    }
}

fn id(digit: char) -> String {
    format!("00000000-0000-0000-0000-00000000000{digit}")
}

fn ids(page: &Value) -> String {
    let genes = page["data"].as_array().unwrap().iter();
    genes.filter_map(|gene| gene["id"].as_str()?.chars().last()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn responses_match_the_document_if_every_optional_column_is_empty() {
    let existing = ExistingRegistry::start().await;
    for replica in &existing.replicas {
        let document = StrictDocument::of(replica).await;
        let get = async |path: &str| replica.get(path, Some(&existing.key)).await;
        for (query, expected) in [
            ("", "345126"),
            ("?sort=reputation", "412563"),
            ("?sort=downloads", "453126"),
            ("?domain=d", "3456"),
            ("?fidelity=Native", "416"),
            ("?domain=d&fidelity=Hybrid", "5"),
            ("?domain=bad", ""),
        ] {
            let response = get(&format!("/genes{query}")).await;
            assert_eq!(response.status, 200, "{query}: {response:?}");
            document.check("/genes", &response);
            assert_eq!(ids(&response.json()), expected, "{query}");
            assert_eq!(response.json()["total"], expected.len(), "{query}");
        }
        for digit in '1'..='6' {
            let response = get(&format!("/genes/{}/phenotype", id(digit))).await;
            assert_eq!(response.status, 200, "{digit}: {response:?}");
            document.check("/genes/{id}/phenotype", &response);
        }
        let response = get("/arena/insights?domain=d").await;
        assert_eq!(response.status, 200, "{response:?}");
        document.check("/arena/insights", &response);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn excluded_rows_are_counted_in_a_metric() {
    let existing = ExistingRegistry::start().await;
    let replica = &existing.replicas[1];
    assert_eq!(
        replica.metric("gene_registry_broken_rows").await,
        Some(0.0),
        "no metadata is shown"
    );

    assert_eq!(replica.get("/genes", Some(&existing.key)).await.status, 200);

    assert_eq!(replica.metric("gene_registry_broken_rows").await, Some(5.0));
}

#[tokio::test(flavor = "multi_thread")]
async fn empty_columns_are_shown_as_documented() {
    let existing = ExistingRegistry::start().await;
    let empty = json!({"type": "object", "properties": {}});
    for replica in &existing.replicas {
        let page = replica.get("/genes", Some(&existing.key)).await.json();
        let gene = |digit: char| {
            let genes = page["data"].as_array().unwrap();
            genes.iter().find(|gene| gene["id"] == id(digit)).unwrap()
        };
        for digit in ['1', '2'] {
            let fidelity = if digit == '1' { "Native" } else { "Hybrid" };
            let nothing = json!({"id": id(digit), "name": "", "domain": "", "fidelity": fidelity,
                "description": "", "fitness_score": 0.0, "reputation_score": 0.0, "owner": "",
                "downloads": 0, "arena_rank": 0, "arena_history": []});
            assert_eq!(gene(digit), &nothing);
            let path = format!("/genes/{}/phenotype", id(digit));
            let nothing = json!({"id": id(digit), "name": "", "domain": "", "fidelity": fidelity,
                "phenotype": {"input": empty, "output": empty}, "fitness_score": 0.0,
                "reputation_score": 0.0,
                "install_command": format!("playground install {}", id(digit)),
                "compatibility": {"min_playground_version": "0.0.0", "required_fidelity": fidelity}});
            assert_eq!(replica.get(&path, Some(&existing.key)).await.json(), nothing);
        }
        let history = json!([
            {"fitness_value": 2.5, "evaluated_at": "2026-01-02T01:04:05Z", "total_calls": 0},
            {"fitness_value": 0.0, "evaluated_at": "2026-01-01T00:00:00Z",
                "total_calls": 9_007_199_254_740_991_u64}]);
        assert_eq!(gene('3')["arena_history"], history);
        assert_eq!(gene('4')["downloads"], 9_007_199_254_740_991_u64);
        assert_eq!(gene('5')["name"].as_str().unwrap().chars().count(), 5000);
        assert_eq!((&gene('5')["arena_rank"], &gene('6')["downloads"]), (&json!(0), &json!(0)));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_that_violate_the_contract_are_excluded_and_their_phenotype_is_502() {
    let existing = ExistingRegistry::start().await;
    for replica in &existing.replicas {
        let document = StrictDocument::of(replica).await;
        for digit in 'a'..='e' {
            let path = format!("/genes/{}/phenotype", id(digit));
            let response = replica.get(&path, Some(&existing.key)).await;
            assert_refusal(&response, 502, "DB_ERROR");
            document.check("/genes/{id}/phenotype", &response);
            for secret in ["fidelity", "registry_read", "gene ", &id(digit)] {
                assert!(!response.text.contains(secret), "{}", response.text);
            }
        }
        let insights = replica.get("/arena/insights?domain=d", Some(&existing.key)).await.json();
        assert_eq!(insights["gene_count"], 4);
        assert_eq!(insights["total_arena_evaluations"], 3);
        assert_eq!(insights["avg_fitness"], 1.5);
        let top: Vec<_> = insights["top_genes"].as_array().unwrap().iter().collect();
        assert_eq!(top.iter().map(|gene| &gene["name"]).collect::<Vec<_>>(), ["c", "e"]);
        let unseen = replica.get("/arena/insights?domain=bad", Some(&existing.key)).await;
        assert_refusal(&unseen, 404, "NOT_FOUND");
    }
}
