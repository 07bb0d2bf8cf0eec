//! Every response over the sample registry matches the served document strictly.

use gene_registry::registry::Catalogue;
use serde_json::Value;

use crate::support::database::Database;
use crate::support::document::StrictDocument;
use crate::support::postgres::PostgresServer;
use crate::support::redis::RedisServer;
use crate::support::replica::{Fleet, Replica, Response, long_timeouts};

const SEARCH: &str = "/genes";
const PHENOTYPE: &str = "/genes/{id}/phenotype";
const INSIGHTS: &str = "/arena/insights";

/// Headers of every HTTP response, which no document lists.
const OF_HTTP: [&str; 5] =
    ["content-type", "content-length", "date", "connection", "x-content-type-options"];

struct ContractSetup {
    database: Database<'static>,
    replica: Replica,
    document: StrictDocument,
    key: String,
}

impl ContractSetup {
    async fn start() -> Self {
        let (postgres, redis) = (PostgresServer::shared().await, RedisServer::shared().await);
        let Fleet { database, mut replicas, .. } =
            Fleet::start_with(1, postgres, redis, long_timeouts).await;
        let replica = replicas.remove(0);
        let document = StrictDocument::of(&replica).await;
        let key = database.new_key(1_000_000).await;
        Self { database, replica, document, key }
    }

    /// The successful response to a path below `/v1`, checked against its operation.
    async fn checked(&self, operation: &str, path: &str) -> Response {
        let response = self.replica.get(path, Some(&self.key)).await;
        assert_eq!(response.status, 200, "{path}: {response:?}");
        self.document.check(operation, &response);
        response
    }

    /// The headers that an operation documents for a status.
    fn headers(&self, operation: &str, status: &str) -> Vec<String> {
        let headers = &self.document.operation(operation)["responses"][status]["headers"];
        headers.as_object().unwrap().keys().cloned().collect()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_search_matches_the_document() {
    let setup = ContractSetup::start().await;
    let published = Catalogue::sample().unwrap().genes.iter().filter(|g| g.published).count();
    for sort in ["fitness", "reputation", "downloads"] {
        for fidelity in ["", "&fidelity=Wrapped", "&fidelity=Hybrid", "&fidelity=Native"] {
            for offset in (0..=published + 50).step_by(50) {
                let path = format!("/genes?sort={sort}{fidelity}&limit=50&offset={offset}");
                let response = setup.checked(SEARCH, &path).await;
                for gene in response.json()["data"].as_array().unwrap() {
                    for entry in gene["arena_history"].as_array().unwrap() {
                        let at = entry["evaluated_at"].as_str().unwrap();
                        assert!(at.len() == 20 && at.ends_with('Z'), "whole seconds, UTC: {at}");
                    }
                }
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_phenotype_and_every_domains_insights_match_the_document() {
    let setup = ContractSetup::start().await;
    let genes = Catalogue::sample().unwrap().genes;
    for gene in &genes {
        let path = format!("/genes/{}/phenotype", gene.id);
        if gene.published {
            setup.checked(PHENOTYPE, &path).await;
        } else {
            setup.replica.get(&path, Some(&setup.key)).await.assert_refused(404, "NOT_FOUND");
        }
    }
    let mut domains: Vec<_> = genes.iter().filter(|g| g.published).map(|g| &g.domain).collect();
    domains.sort();
    domains.dedup();
    assert!(domains.len() > 40, "{}", domains.len());
    for domain in domains {
        let response = setup.checked(INSIGHTS, &format!("/arena/insights?domain={domain}")).await;
        assert_eq!(response.json()["domain"], domain.as_str());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_error_matches_the_document_and_has_the_documented_headers() {
    let setup = ContractSetup::start().await;
    let (key, none) = (Some(setup.key.as_str()), None);
    let never = setup.database.new_key(0).await;
    let good = [
        (SEARCH, "/genes?offset=20"),
        (PHENOTYPE, "/genes/db8dde37-1518-4afb-94b1-f5723d34ff6e/phenotype"),
        (INSIGHTS, "/arena/insights?domain=search"),
    ];
    let mut responses = Vec::new();
    for (operation, path) in good {
        responses.push((operation, setup.replica.get(path, key).await, 200));
        responses.push((operation, setup.replica.get(path, none).await, 401));
        responses.push((operation, setup.replica.get(path, Some(&never)).await, 429));
        responses.push((
            operation,
            setup.replica.raw("POST", &format!("/v1{path}"), &[]).await,
            405,
        ));
    }
    for (operation, path, status) in [
        (SEARCH, "/genes?limit=0", 400),
        (PHENOTYPE, "/genes/x/phenotype", 400),
        (PHENOTYPE, "/genes/00000000-0000-0000-0000-000000000000/phenotype", 404),
        (INSIGHTS, "/arena/insights", 400),
        (INSIGHTS, "/arena/insights?domain=none", 404),
    ] {
        responses.push((operation, setup.replica.get(path, key).await, status));
    }
    for (operation, response, status) in responses {
        assert_eq!(response.status, status, "{response:?}");
        setup.document.check(operation, &response);
        let documented = setup.headers(operation, response.status.as_str());
        for header in &documented {
            assert_ne!(response.header(header), "", "{operation}, {status}: {header}");
        }
        for sent in response.headers.keys().map(|name| name.as_str()) {
            let is_documented = documented.iter().any(|name| name.eq_ignore_ascii_case(sent));
            assert!(is_documented || OF_HTTP.contains(&sent), "{operation}, {status}: {sent}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_response_that_the_client_has_is_304_with_the_documented_headers() {
    let setup = ContractSetup::start().await;
    for (operation, path) in [
        (SEARCH, "/genes?offset=20"),
        (PHENOTYPE, "/genes/db8dde37-1518-4afb-94b1-f5723d34ff6e/phenotype"),
        (INSIGHTS, "/arena/insights?domain=search"),
    ] {
        let response = setup.checked(operation, path).await;
        let headers =
            [("X-API-Key", setup.key.as_str()), ("If-None-Match", response.header("etag"))];
        let again = setup.replica.raw("GET", &format!("/v1{path}"), &headers).await;
        assert_eq!((again.status.as_u16(), again.text.as_str()), (304, ""), "{again:?}");
        for header in setup.headers(operation, "304") {
            assert_ne!(again.header(&header), "", "{operation}: {header}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_documents_examples_work() {
    let setup = ContractSetup::start().await;
    for operation in [SEARCH, PHENOTYPE, INSIGHTS] {
        let mut path = operation.to_owned();
        let mut query = Vec::new();
        let parameters = setup.document.operation(operation)["parameters"].as_array().unwrap();
        for parameter in parameters {
            let name = parameter["name"].as_str().unwrap();
            let example = match &parameter["example"] {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            if parameter["in"] == "header" {
                continue;
            }
            if parameter["in"] == "path" {
                path = path.replace(&format!("{{{name}}}"), &example);
            } else {
                query.push(format!("{name}={example}"));
            }
        }
        let response = setup.checked(operation, &format!("{path}?{}", query.join("&"))).await;
        assert_ne!(
            response.json()["data"],
            serde_json::json!([]),
            "an example that shows something"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_strict_check_finds_deviations() {
    let setup = ContractSetup::start().await;
    let mut page = setup.checked(SEARCH, "/genes?limit=1").await.json();
    let schema = serde_json::json!({"$ref": "#/components/schemas/GenePage"});
    let faults = |page: &Value| setup.document.faults(&schema, page);
    assert!(faults(&page).is_empty());
    for (field, wrong) in [
        ("id", Value::from("x")),
        ("downloads", Value::from(-1)),
        ("downloads", Value::from(9_007_199_254_740_992_u64)),
        ("fidelity", Value::Null),
        ("more", Value::from(1)),
        ("arena_history", serde_json::json!([{"fitness_value": 1}])),
    ] {
        let right = page["data"][0].clone();
        page["data"][0][field] = wrong;
        assert!(!faults(&page).is_empty(), "{field}");
        page["data"][0] = right;
    }
    page["data"][0]["downloads"] = Value::from(9_007_199_254_740_991_u64);
    assert!(faults(&page).is_empty());
    page.as_object_mut().unwrap().remove("total");
    assert!(!faults(&page).is_empty());
}
