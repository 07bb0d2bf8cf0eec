//! What the framework has no words for: examples of headers, and, for generators and agents,
//! how to page and how to try again. Extensions are those that generators read today.

use serde_json::{Value, json};

use super::examples::TAG;
use super::for_each_object;

pub(super) fn add_to(document: &mut Value) {
    document["info"]["contact"] = json!({ "name": "Whoever runs this registry" });
    document["x-speakeasy-retries"] = json!({
        "strategy": "backoff",
        "backoff": {
            "initialInterval": 500,
            "maxInterval": 60_000,
            "maxElapsedTime": 120_000,
            "exponent": 2,
        },
        // On 429 and 503, `Retry-After` says how long.
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
    add_header_examples(document);
}

fn add_header_examples(document: &mut Value) {
    for_each_object(document, &mut |object| {
        let Some(Value::Object(headers)) = object.get_mut("headers") else { return };
        for (name, header) in headers {
            if let Some(example) = header_example(&name.to_ascii_lowercase())
                && header.get("schema").is_some()
            {
                header["example"] = example;
            }
        }
    });
}

fn header_example(name: &str) -> Option<Value> {
    Some(match name {
        "x-request-id" => json!("5f1c9a0e4b7d2c38-1a"),
        "cache-control" => json!("private, max-age=30"),
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
