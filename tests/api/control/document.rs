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
    jsonschema::options().should_validate_formats(true).build(&root).unwrap()
}

/// Also without fields that the document lacks.
fn strict(value: &mut Value) {
    nullable_as_types(value);
    forbid_others(value);
}

fn forbid_others(value: &mut Value) {
    if value.get("properties").is_some_and(Value::is_object) {
        value["additionalProperties"] = false.into();
    }
    match value {
        Value::Object(fields) => fields.values_mut().for_each(forbid_others),
        Value::Array(items) => items.iter_mut().for_each(forbid_others),
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
        (
            "post",
            "/api-keys",
            "CreatedApiKey",
            alice.post("/api-keys", &json!({ "name": "b" })).await,
        ),
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
async fn the_newer_version_describes_the_same_api() {
    let (replica, _database) = replica(|config| _ = new_token(config, "alice")).await;
    let nobody = ControlClient::new(&replica, None);
    let mut old = nobody.get("/openapi.json?version=3.0").await.json();
    assert!(old == nobody.get("/openapi.json").await.json());
    let new = nobody.get("/openapi.json?version=3.1").await;
    assert!(!new.text.contains("nullable"), "{new:?}");
    let new = new.json();
    assert_eq!((&old["openapi"], &new["openapi"]), (&json!("3.0.3"), &json!("3.1.0")));
    old["openapi"] = "3.1.0".into();
    nullable_as_types(&mut old);
    assert!(old == new);
    let refused = nobody.get("/openapi.json?version=2").await;
    refused.assert_refused(400, "MISSING_PARAM");
}

fn nullable_as_types(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            if fields.remove("nullable") == Some(true.into()) {
                fields["type"] = json!([fields["type"], "null"]);
            }
            fields.values_mut().for_each(nullable_as_types);
        }
        Value::Array(items) => items.iter_mut().for_each(nullable_as_types),
        _ => {}
    }
}

/// Bodies that the service refuses with 400, and others: the document says the same, as far as it can.
#[tokio::test(flavor = "multi_thread")]
async fn the_document_has_the_bounds_of_requests() {
    let mut token = String::new();
    let (replica, _database) = replica(|config| token = new_token(config, "alice")).await;
    let alice = ControlClient::new(&replica, Some(&token));
    let document = alice.get("/openapi.json").await.json();
    let long = "n".repeat(201);
    let scopes: Vec<_> = (0..17).map(|number| format!("s{number}")).collect();
    for (path, name, good, bad) in [
        (
            "/api-keys",
            "CreateApiKey",
            vec![
                json!({"name": "🧬 a", "scopes": null, "rate_limit_per_minute": null, "expires_at": null, "block": null}),
                json!({"name": "b", "scopes": ["read"], "rate_limit_per_minute": 7.0, "expires_at": "2999-01-01T00:00:00Z"}),
            ],
            vec![
                json!({}),
                json!({"name": null}),
                json!({"name": ""}),
                json!({"name": "  "}),
                json!({"name": "a\n"}),
                json!({"name": "a\u{85}b"}),
                json!({"name": long}),
                json!({"name": "a", "scopes": []}),
                json!({"name": "a", "scopes": scopes}),
                json!({"name": "a", "scopes": [""]}),
                json!({"name": "a", "scopes": ["read\n"]}),
                json!({"name": "a", "scopes": ["R"]}),
                json!({"name": "a", "scopes": ["s".repeat(65)], "block": true}),
                json!({"name": "a", "rate_limit_per_minute": -1}),
                json!({"name": "a", "rate_limit_per_minute": 2_147_483_648_u32}),
                json!({"name": "a", "rate_limit_per_minute": 1.5}),
                json!({"name": "a", "expires_at": "tomorrow"}),
                json!({"name": "a", "block": "yes"}),
                json!({"name": "a", "owner": "bob"}),
            ],
        ),
        (
            "/api-keys/revoke",
            "RevokeApiKey",
            ["gr_0000", "0000", "gr_00000000", "00000000"]
                .map(|prefix| json!({"prefix": prefix}))
                .to_vec(),
            [
                "",
                "gr_",
                "gr_000",
                "000",
                "000000000",
                "gr_000000000",
                "gr_0000\n",
                "0000_",
                "gr_00é0",
                "%%%%",
            ]
            .map(|prefix| json!({"prefix": prefix}))
            .to_vec(),
        ),
        (
            "/api-keys/rotate",
            "RotateApiKey",
            vec![json!({"prefix": "gr_0000", "overlap_s": 0, "all": null})],
            vec![
                json!({"prefix": "gr_0000", "overlap_s": -1}),
                json!({"prefix": "gr_0000", "overlap_s": 31_536_001}),
                json!({"prefix": "gr_0000", "force": true}),
            ],
        ),
        (
            "/api-keys/update",
            "UpdateApiKey",
            vec![json!({"prefix": "gr_0000", "name": "a", "never_expires": true})],
            vec![
                json!({"prefix": "gr_0000", "name": "\t"}),
                json!({"prefix": "gr_0000", "rate_limit_per_minute": 0}),
            ],
        ),
    ] {
        let request = schema(&document, name);
        for body in good {
            assert!(request.is_valid(&body), "{path} {body}");
            let response = alice.post(path, &body).await;
            assert!([201, 404].contains(&response.status.as_u16()), "{path} {body}: {response:?}");
        }
        for body in bad {
            assert!(!request.is_valid(&body), "{path} {body}");
            assert_eq!(alice.post(path, &body).await.status, 400, "{path} {body}");
        }
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
        let name = operation["operationId"].as_str().unwrap();
        let open = name == "howToLogIn";
        let tag = if ["howToLogIn", "whoAmI"].contains(&name) { "login" } else { "api-keys" };
        assert_eq!(operation["tags"], json!([tag]), "{name}");
        assert_eq!(operation["security"] == json!([]), open, "{operation}");
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
