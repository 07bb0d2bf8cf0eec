//! The control API's document and page; the public document does not mention it.

use jsonschema::Validator;
use reqwest::Method;
use serde_json::{Value, json};

use super::replica;
use crate::support::control::{ControlClient, new_token, prefix};
use crate::support::replica::Response;

/// A strict validator for a schema of the document, with `nullable` translated to JSON Schema.
fn schema(document: &Value, name: &str) -> Validator {
    let mut schemas = document["components"]["schemas"].clone();
    strict(&mut schemas);
    let root = json!({ "$ref": format!("#/components/schemas/{name}"), "components": { "schemas": schemas } });
    jsonschema::validator_for(&root).unwrap()
}

fn strict(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            if fields.remove("nullable") == Some(true.into()) {
                fields["type"] = json!([fields["type"], "null"]);
            }
            if fields.contains_key("properties") {
                fields.insert("additionalProperties".to_owned(), false.into());
            }
            fields.values_mut().for_each(strict);
        }
        Value::Array(items) => items.iter_mut().for_each(strict),
        _ => {}
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_response_matches_the_document() {
    let mut token = String::new();
    let (replica, _database) = replica(|config| token = new_token(config, "alice")).await;
    let alice = ControlClient::new(&replica, Some(&token));
    let document = alice.get("/openapi.json").await.json();
    let one = alice.create("a").await;
    let revoke = json!({ "prefix": prefix(&one) });
    let responses: Vec<(&str, &str, &str, Response)> = vec![
        ("get", "/login", "Login", alice.get("/login").await),
        ("get", "/whoami", "WhoAmI", alice.get("/whoami").await),
        ("post", "/api-keys", "NewApiKey", alice.post("/api-keys", &json!({ "name": "b" })).await),
        ("get", "/api-keys", "ApiKeyPage", alice.get("/api-keys").await),
        (
            "post",
            "/api-keys/rotate",
            "RotatedApiKey",
            alice.post("/api-keys/rotate", &revoke).await,
        ),
        (
            "post",
            "/api-keys/update",
            "ApiKey",
            alice.post("/api-keys/update", &json!({ "prefix": prefix(&one), "name": "c" })).await,
        ),
        ("post", "/api-keys/revoke", "ApiKey", alice.post("/api-keys/revoke", &revoke).await),
        ("post", "/api-keys/rotate", "ControlError", alice.post("/api-keys/rotate", &revoke).await),
        ("post", "/api-keys", "ControlError", alice.post("/api-keys", &json!({})).await),
        ("get", "/whoami", "ControlError", ControlClient::new(&replica, None).get("/whoami").await),
    ];
    for (method, path, name, response) in responses {
        let described =
            &document["paths"][path][method]["responses"][response.status.as_str()]["content"];
        let reference = &described["application/json"]["schema"]["$ref"];
        assert_eq!(*reference, format!("#/components/schemas/{name}"), "{method} {path}");
        let errors: Vec<_> =
            schema(&document, name).iter_errors(&response.json()).map(|e| e.to_string()).collect();
        assert!(errors.is_empty(), "{path}: {errors:?} {response:?}");
        assert_eq!(response.header("cache-control"), "no-store");
        assert!(!response.header("x-request-id").is_empty());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_document_describes_key_management_and_the_public_one_does_not() {
    let (replica, _database) = replica(|config| {
        new_token(config, "alice");
        config.control.public_url = Some("https://keys.example/registry/".to_owned());
    })
    .await;
    let control = replica.control.clone().unwrap();
    let nobody = ControlClient::new(&replica, None);
    let document = nobody.get("/openapi.json").await.json();
    let server = "https://keys.example/registry/control/v1";
    assert_eq!(document["servers"], json!([{ "url": server }]));
    let operations: Vec<_> = document["paths"]
        .as_object()
        .unwrap()
        .values()
        .flat_map(|item| item.as_object().unwrap().values())
        .collect();
    let mut names: Vec<_> =
        operations.iter().map(|operation| operation["operationId"].as_str().unwrap()).collect();
    names.sort_unstable();
    let expected = [
        "createApiKey",
        "howToLogIn",
        "listApiKeys",
        "revokeApiKey",
        "rotateApiKey",
        "updateApiKey",
        "whoAmI",
    ];
    assert_eq!(names, expected);
    for operation in operations {
        let open = operation["operationId"] == "howToLogIn";
        assert_eq!(operation["security"].is_null(), open, "{operation}");
        assert_eq!(operation["responses"]["401"].is_null(), open, "{operation}");
    }
    assert_eq!(document["components"]["securitySchemes"]["Bearer"]["scheme"], "bearer");

    for (path, text) in [("/docs", "docs/init.js"), ("/docs/init.js", "control/v1/openapi.json")] {
        let page = replica.send(Method::GET, &format!("{control}{path}"), &[]).await;
        assert_eq!(page.status, 200);
        assert!(page.text.contains(text), "{page:?}");
        assert!(page.header("content-security-policy").starts_with("default-src 'none'"));
    }
    for part in
        ["swagger.js", "swagger-ui-bundle.js", "swagger-ui.css", "docs.css", "../assets/style.css"]
    {
        let part = part.strip_prefix("../").map_or(format!("docs/{part}"), str::to_owned);
        let head = replica.send(Method::HEAD, &format!("{control}/{part}"), &[]).await;
        assert_eq!(head.status, 200, "{part}");
    }
    let public = replica.get("/openapi.json", None).await;
    assert!(!public.text.contains("/control/") && !public.text.contains("api-keys"));
    let on_public = replica.base.replace("/v1", "/control/v1/login");
    replica.send(Method::GET, &on_public, &[]).await.assert_refused(404, "NOT_FOUND");
    let on_control = format!("{control}/v1/genes");
    replica.send(Method::GET, &on_control, &[]).await.assert_refused(404, "NOT_FOUND");
}
