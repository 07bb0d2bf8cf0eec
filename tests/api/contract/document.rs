//! The content of the document.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use gene_registry::registry::{Catalogue, Fidelity, Sort, Timestamp};
use gene_registry::upstream::Embedded;
use serde_json::{Value, json};

use crate::support::document::StrictDocument;
use crate::support::replica::{Replica, config};

const ERRORS: [&str; 8] = ["400", "401", "404", "405", "429", "500", "502", "503"];
const OPERATIONS: [(&str, &str); 3] = [
    ("/genes", "searchGenes"),
    ("/genes/{id}/phenotype", "getGenePhenotype"),
    ("/arena/insights", "getArenaInsights"),
];

/// A replica without database and Redis, which the document does not need.
async fn replica(public_url: Option<&str>) -> Replica {
    let mut config = config("", None);
    config.server.public_url = public_url.map(str::to_owned);
    let sample = Catalogue::sample().unwrap();
    let upstream = Embedded::from_catalogue(&sample, Timestamp::now(), vec![], String::new());
    Replica::with_upstream(&config, Arc::new(upstream)).await
}

fn printed(arguments: &str) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gene-registry"));
    command.arg("openapi").args(arguments.split(' '));
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_committed_document_is_the_generated_one() {
    for (file, arguments) in [
        ("openapi/openapi.json", "--version 3.0 --format json"),
        ("openapi/openapi.yaml", "--version 3.0 --format yaml"),
        ("openapi/openapi-3.1.json", "--version 3.1 --format json"),
        ("openapi/openapi-3.1.yaml", "--version 3.1 --format yaml"),
        ("openapi/control/openapi.json", "--control --version 3.0"),
        ("openapi/control/openapi-3.1.json", "--control --version 3.1"),
    ] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
        let committed = std::fs::read_to_string(path).unwrap_or_default();
        assert!(
            committed == printed(arguments),
            "{file} is out of date. Regenerate it:\n\n    cargo run -- openapi {arguments} > {file}\n"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_served_document_is_the_printed_one_at_every_address() {
    let replica = replica(None).await;
    let root = replica.base.strip_suffix("/v1").unwrap();
    for (format, kind) in [("json", "application/json"), ("yaml", "application/yaml")] {
        for (query, version) in [("", "3.0"), ("?version=3.0", "3.0"), ("?version=3.1", "3.1")] {
            for below in ["", "/v1"] {
                let url = format!("{root}{below}/openapi.{format}{query}");
                let response = replica.send(reqwest::Method::GET, &url, &[]).await;
                assert_eq!(
                    (response.status.as_u16(), response.header("content-type")),
                    (200, kind)
                );
                let printed = printed(&format!("--version {version} --format {format}"));
                assert!(response.text == printed, "{url}");
            }
        }
    }
}

#[test]
fn json_and_yaml_are_equal() {
    for version in ["3.0", "3.1"] {
        let printed = |format| printed(&format!("--version {version} --format {format}"));
        let json: Value = serde_json::from_str(&printed("json")).unwrap();
        let yaml: Value = serde_saphyr::from_str(&printed("yaml")).unwrap();
        assert!(json == yaml, "{version}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_document_has_the_fixed_version_and_describes_the_service() {
    let document = StrictDocument::of(&replica(None).await).await.json;
    assert_eq!(document["openapi"], "3.0.3");
    assert_eq!(document["info"]["version"], env!("CARGO_PKG_VERSION"));
    let description = document["info"]["description"].as_str().unwrap();
    for said in
        ["Level 1.5", "Execution API", "Evolution Loop API", "planned", "/v1", "nonstandard"]
    {
        assert!(description.contains(said), "{said}");
    }
    assert_eq!(document["tags"][0]["name"], "nonstandard");
    let scheme = &document["components"]["securitySchemes"]["ApiKey"];
    assert_eq!(
        (&scheme["type"], &scheme["in"], &scheme["name"]),
        (&json!("apiKey"), &json!("header"), &json!("X-API-Key"))
    );
    let paths: Vec<_> = document["paths"].as_object().unwrap().keys().collect();
    assert_eq!(paths, OPERATIONS.map(|(path, _)| path));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_server_url_is_relative_or_the_public_url() {
    for (public_url, server) in [
        (None, "/v1"),
        (Some("https://api.example"), "https://api.example/v1"),
        (Some("https://api.example/"), "https://api.example/v1"),
        (Some("https://api.example/genes/"), "https://api.example/genes/v1"),
    ] {
        let document = StrictDocument::of(&replica(public_url).await).await.json;
        assert_eq!(document["servers"], json!([{ "url": server }]), "{public_url:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_operation_declares_its_id_tag_security_and_every_status() {
    let document = StrictDocument::of(&replica(None).await).await;
    for (path, id) in OPERATIONS {
        let operation = document.operation(path);
        assert_eq!(operation["operationId"], id);
        assert_eq!(operation["tags"], json!(["nonstandard"]));
        assert_eq!(operation["security"], json!([{ "ApiKey": [] }]));
        for text in ["summary", "description"] {
            assert!(operation[text].as_str().is_some_and(|text| !text.is_empty()), "{path} {text}");
        }
        let responses = operation["responses"].as_object().unwrap();
        let mut statuses: Vec<_> = responses.keys().map(String::as_str).collect();
        statuses.sort_unstable();
        assert_eq!(statuses, [&["200", "304"], &ERRORS[..]].concat(), "{path}");
        for status in ERRORS {
            let content = responses[status]["content"].as_object().unwrap();
            assert_eq!(content.len(), 1);
            let error = json!({"$ref": "#/components/schemas/ErrorBody"});
            assert_eq!(content["application/json"]["schema"], error, "{path} {status}");
        }
        for status in ["200", "400", "404", "429"] {
            for header in ["RateLimit", "RateLimit-Policy", "X-RateLimit-Remaining"] {
                let declared = &responses[status]["headers"][header]["description"];
                assert!(declared.is_string(), "{path} {status} {header}");
            }
        }
        assert!(responses["429"]["headers"]["Retry-After"].is_object());
    }
    let codes = &document.json["components"]["schemas"]["ErrorCode"]["enum"];
    let codes: Vec<_> = codes.as_array().unwrap().iter().filter_map(Value::as_str).collect();
    let known = "INVALID_ID MISSING_PARAM UNAUTHORIZED NOT_FOUND METHOD_NOT_ALLOWED RATE_LIMITED \
                 INTERNAL DB_ERROR UNAVAILABLE";
    assert_eq!(codes, known.split_whitespace().collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn each_parameter_has_a_description_bounds_and_an_example_within_them() {
    let document = StrictDocument::of(&replica(None).await).await;
    for (path, name, required, says) in [
        ("/genes", "domain", false, json!({"minLength": 0, "maxLength": 255})),
        ("/genes", "fidelity", false, json!({"$ref": "#/components/schemas/Fidelity"})),
        ("/genes", "sort", false, json!({"$ref": "#/components/schemas/GeneOrder"})),
        ("/genes", "limit", false, json!({"minimum": 1, "maximum": 50, "default": 20})),
        ("/genes", "offset", false, json!({"minimum": 0, "maximum": 2_147_483_647, "default": 0})),
        ("/genes/{id}/phenotype", "id", true, json!({"type": "string", "format": "uuid"})),
        ("/arena/insights", "domain", true, json!({"minLength": 1, "maxLength": 255})),
        ("/genes", "If-None-Match", false, json!({"type": "string"})),
        ("/genes/{id}/phenotype", "If-None-Match", false, json!({"type": "string"})),
        ("/arena/insights", "If-None-Match", false, json!({"type": "string"})),
    ] {
        let parameters = document.operation(path)["parameters"].as_array().unwrap();
        let parameter = parameters.iter().find(|parameter| parameter["name"] == name).unwrap();
        let schema = &parameter["schema"];
        assert_eq!(parameter["required"], required, "{path} {name}");
        assert!(parameter["description"].as_str().is_some_and(|text| text.len() > 10));
        for (keyword, value) in says.as_object().unwrap() {
            assert_eq!(&schema[keyword], value, "{path} {name} {keyword}");
        }
        if name == "domain" {
            let refused = ["a\n", "\0", "\u{9f}"].map(|text| document.faults(schema, &text.into()));
            assert!(refused.iter().all(|faults| !faults.is_empty()), "{path} {name}");
        }
        if name == "id" {
            assert_eq!(schema.as_object().unwrap().len(), 2, "{path}: nothing beside the format");
        }
        let example = &parameter["example"];
        assert!(!example.is_null() && document.faults(schema, example).is_empty(), "{path} {name}");
    }
    let schemas = &document.json["components"]["schemas"];
    assert_eq!(schemas["Fidelity"]["enum"], json!(Fidelity::ALL.map(Fidelity::as_str)));
    assert_eq!(schemas["GeneOrder"]["enum"], json!(Sort::ALL.map(Sort::as_str)));
    assert_eq!(schemas["GeneOrder"]["default"], Sort::default().as_str());
    let count = OPERATIONS
        .map(|(path, _)| document.operation(path)["parameters"].as_array().unwrap().len());
    assert_eq!(count, [6, 2, 2], "no parameter is left out above");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_field_is_described_and_required_and_integers_are_bounded() {
    let document = StrictDocument::of(&replica(None).await).await.json;
    for (name, schema) in document["components"]["schemas"].as_object().unwrap() {
        assert!(schema["description"].is_string(), "{name}");
        let Some(properties) = schema["properties"].as_object() else { continue };
        let mut required: Vec<_> = schema["required"].as_array().unwrap().iter().collect();
        required.sort_by_key(|name| name.to_string());
        let mut names: Vec<Value> = properties.keys().map(|name| name.as_str().into()).collect();
        names.sort_by_key(Value::to_string);
        assert_eq!(required, names.iter().collect::<Vec<_>>(), "{name}");
        for (field, property) in properties {
            assert!(property["description"].is_string(), "{name}.{field}");
            if property["type"] == "integer" && property["format"] == "int64" {
                assert_eq!(property["maximum"], 9_007_199_254_740_991_u64, "{name}.{field}");
            }
        }
    }
}
