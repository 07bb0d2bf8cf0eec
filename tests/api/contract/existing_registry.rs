//! An existing registry with every optional value empty and with values at and beyond every bound:
//! responses match the served document strictly. The tests of generated clients use the same
//! registry.

use serde_json::{Value, json};

use crate::support::document::StrictDocument;
use crate::support::postgres::PostgresServer;
use crate::support::replica::{READER, Replica, config, long_timeouts, sample};

const EXISTING: &str = include_str!("../../sdk/existing_registry.sql");
const LARGEST: u64 = (1 << 53) - 1;

#[tokio::test(flavor = "multi_thread")]
async fn the_emptiest_and_the_largest_genes_match_the_document_in_every_response() {
    let database = sample(PostgresServer::shared().await).await;
    database.connect().await.batch_execute(EXISTING).await.unwrap();
    let key = database.new_key(1_000_000).await;
    let mut config = config(&database.url_as(READER), None);
    long_timeouts(&mut config);
    let replica = Replica::start(&config).await;
    let document = StrictDocument::of(&replica).await;
    let checked = async |operation: &str, path: &str| {
        let response = replica.get(path, Some(&key)).await;
        assert_eq!(response.status, 200, "{path}: {response:?}");
        document.check(operation, &response);
        response.json()
    };
    for sort in ["fitness", "reputation", "downloads"] {
        checked("/genes", &format!("/genes?sort={sort}&limit=50")).await;
    }

    let page = checked("/genes", "/genes?domain=foreign.empty").await;
    let id = "00000000-0000-0000-0000-000000000000";
    assert_eq!(
        page["data"],
        json!([{
            "id": id, "name": "", "domain": "foreign.empty", "fidelity": "Wrapped",
            "description": "", "fitness_score": 0.0, "reputation_score": 0.0, "owner": "",
            "downloads": 0, "arena_rank": 0, "arena_history": [],
        }])
    );
    let bare = checked("/genes/{id}/phenotype", &format!("/genes/{id}/phenotype")).await;
    let nothing = json!({"type": "object", "properties": {}});
    assert_eq!(bare["phenotype"], json!({"input": nothing, "output": nothing}));
    let none = checked("/arena/insights", "/arena/insights?domain=foreign.empty").await;
    assert_eq!((&none["gene_count"], &none["top_genes"]), (&json!(1), &json!([])));

    let page = checked("/genes", "/genes?domain=foreign.large").await;
    let large = &page["data"][0];
    assert_eq!(large["name"], "\u{1F9EC} \"\\\" \u{2028} %");
    assert_eq!(large["description"], Value::from("\u{1D4B3}".repeat(20_000)));
    assert_eq!([&large["downloads"], &large["arena_rank"]], [LARGEST, LARGEST]);
    assert_eq!(
        large["arena_history"],
        json!([{"fitness_value": 1.5, "evaluated_at": "2025-12-31T18:45:00Z",
                "total_calls": LARGEST}])
    );
    let id = large["id"].as_str().unwrap();
    let odd = checked("/genes/{id}/phenotype", &format!("/genes/{id}/phenotype")).await;
    assert_eq!(odd["phenotype"]["input"], json!({"type": ["object", "null"], "x": [1e308]}));
    assert_eq!(odd["phenotype"]["output"], nothing, "by contract a schema is an object");
    checked("/arena/insights", "/arena/insights?domain=foreign.large").await;
}
