//! Additions that the framework does not support: forbidden characters, the header that middleware
//! reads, examples of headers, and extensions that tell client generators how to paginate and when to retry.

use serde_json::{Value, json};

use super::examples::TAG;
use crate::http::document::{CONTROLS, forbid};
use crate::registry::Sort;

/// Adds them to the document.
pub(super) fn add_to(document: &mut Value) {
    document["info"]["contact"] = json!({ "name": "The operator of this registry" });
    document["x-speakeasy-retries"] = json!({
        "strategy": "backoff",
        "backoff": {
            "initialInterval": 500,
            "maxInterval": 60_000,
            "maxElapsedTime": 120_000,
            "exponent": 2,
        },
        // The generated clients prefer `Retry-After`, which 429 and 503 have.
        "statusCodes": ["429", "502", "503"],
        "retryConnectionErrors": true,
    });
    document["paths"]["/genes"]["get"]["x-speakeasy-pagination"] = json!({
        "type": "offsetLimit",
        "inputs": [
            { "name": "offset", "in": "parameters", "type": "offset" },
            { "name": "limit", "in": "parameters", "type": "limit" },
        ],
        "outputs": { "results": "$.data" },
    });
    document["paths"]["/genes"]["get"]["x-fern-pagination"] =
        json!({ "offset": "$request.offset", "results": "$response.data" });
    forbid_controls(document);
    // Used by `sort` only.
    document["components"]["schemas"]["GeneOrder"]["default"] = Sort::default().as_str().into();
    add_if_none_match(document);
    add_header_examples(document);
}

/// Adds that the name of a domain has no control characters.
fn forbid_controls(document: &mut Value) {
    for path in ["/genes", "/arena/insights"] {
        let parameters = document["paths"][path]["get"]["parameters"].as_array_mut();
        for parameter in parameters.into_iter().flatten().filter(|one| one["name"] == "domain") {
            forbid(&mut parameter["schema"], CONTROLS);
            if parameter["schema"]["minLength"] == 0 {
                parameter["allowEmptyValue"] = true.into();
            }
        }
    }
}

/// Adds the parameter that [`crate::api::negotiation`] compares with the response.
fn add_if_none_match(document: &mut Value) {
    let description =
        "Entity tags of responses that you have. If one of them is current, the response is 304.";
    for (_, path) in document["paths"].as_object_mut().into_iter().flatten() {
        if let Some(parameters) = path["get"]["parameters"].as_array_mut() {
            parameters.push(json!({
                "name": "If-None-Match",
                "schema": { "type": "string" },
                "in": "header",
                "description": description,
                "required": false,
                "example": TAG,
            }));
        }
    }
}

fn add_header_examples(document: &mut Value) {
    let paths = document["paths"].as_object_mut().into_iter().flatten();
    for (status, response) in
        paths.filter_map(|(_, path)| path["get"]["responses"].as_object_mut()).flatten()
    {
        for (name, header) in response["headers"].as_object_mut().into_iter().flatten() {
            if let Some(example) = header_example(status, &name.to_ascii_lowercase()) {
                header["example"] = example;
            }
        }
    }
}

fn header_example(status: &str, name: &str) -> Option<Value> {
    Some(match (status, name) {
        ("200" | "304", "cache-control") => json!("private, max-age=30"),
        (_, "cache-control") => json!("no-store"),
        ("429", "ratelimit") => json!("\"key\";r=0;t=42"),
        ("429", "x-ratelimit-remaining") => json!(0),
        ("503", "retry-after") => json!(1),
        (_, name) => return header_example_of_any(name),
    })
}

fn header_example_of_any(name: &str) -> Option<Value> {
    Some(match name {
        "x-request-id" => json!("5f1c9a0e4b7d2c38-1a"),
        "age" => json!(3),
        "cache-status" => json!("gene-registry; hit; ttl=27; detail=local"),
        "etag" => json!(TAG),
        "vary" => json!("X-API-Key, Accept-Encoding"),
        "link" => json!("<?domain=search&limit=2&offset=2>; rel=\"next\""),
        "ratelimit-policy" => json!("\"key\";q=30;w=60"),
        "ratelimit" => json!("\"key\";r=23;t=42"),
        "x-ratelimit-limit" => json!(30),
        "x-ratelimit-remaining" => json!(23),
        "x-ratelimit-reset" | "retry-after" => json!(42),
        "www-authenticate" => json!("ApiKey realm=\"gene-registry\""),
        "allow" => json!("GET"),
        _ => return None,
    })
}
