//! The OpenAPI document: what the framework knows of the operations, made into the document
//! that clients are generated from by one step that says what the framework can't.

use std::marker::PhantomData;

use bytes::Bytes;
use poem_openapi::OpenApiService;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::Operations;
use super::examples;
use super::security::SCHEME;

const TITLE: &str = "Gene Registry Read API";
const DESCRIPTION: &str = include_str!("description.md");

/// The document, ready to be served.
#[derive(Debug, Clone)]
pub struct Document {
    /// As JSON.
    pub json: Bytes,
    /// As YAML.
    pub yaml: Bytes,
    schemas: String,
}

impl Document {
    /// The document of a service that is reached under `public_url`, or, where that is not
    /// known, under whatever address the document itself was fetched from.
    pub fn new(public_url: Option<&str>) -> Self {
        let value = value(public_url);
        let schemas = value["components"]["schemas"].to_string();
        let mut json = serde_json::to_string_pretty(&value).unwrap_or_default();
        json.push('\n');
        let yaml = serde_saphyr::to_string(&value).unwrap_or_default();
        Self { json: json.into(), yaml: yaml.into(), schemas }
    }

    /// A fingerprint of the answers' schemas: differs when a client could tell the difference.
    pub fn fingerprint(&self) -> String {
        let digest = Sha256::digest(self.schemas.as_bytes());
        digest.iter().take(6).map(|byte| format!("{byte:02x}")).collect()
    }
}

/// The operations' metadata needs no handlers, so the document needs no running service.
pub(crate) struct Described<A>(PhantomData<A>);

impl<A> Default for Described<A> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<A: poem_openapi::OpenApi> poem_openapi::OpenApi for Described<A> {
    fn meta() -> Vec<poem_openapi::registry::MetaApi> {
        A::meta()
    }

    fn register(registry: &mut poem_openapi::registry::Registry) {
        A::register(registry);
    }

    fn add_routes(
        self,
        _: &mut std::collections::HashMap<
            String,
            std::collections::HashMap<poem::http::Method, poem::endpoint::BoxEndpoint<'static>>,
        >,
    ) {
    }
}

fn value(public_url: Option<&str>) -> Value {
    let described = Described::<Operations>::default();
    let version = env!("CARGO_PKG_VERSION");
    let service = OpenApiService::new(described, TITLE, version).description(DESCRIPTION);
    // What the framework writes is JSON; were it not, the committed document's test would fail.
    let mut document: Value = serde_json::from_str(&service.spec()).unwrap_or_default();
    document["openapi"] = "3.0.3".into();
    document["servers"] = json!([{ "url": server_url(public_url) }]);
    document["security"] = json!([{ SCHEME: [] }]);
    move_paths_below(&mut document, "/v1");
    examples::add_to(&mut document);
    tidy(&mut document);
    in_order(document)
}

fn server_url(public_url: Option<&str>) -> String {
    format!("{}/v1", public_url.unwrap_or_default().trim_end_matches('/'))
}

/// Routes carry their base, the document's paths do not: clients join server and path.
pub(crate) fn move_paths_below(document: &mut Value, base: &str) {
    let Some(paths) = document["paths"].as_object_mut() else { return };
    *paths = std::mem::take(paths)
        .into_iter()
        .map(|(path, item)| (path.strip_prefix(base).unwrap_or(&path).to_owned(), item))
        .collect();
}

/// Drops what says nothing, and writes whole numbers as such.
pub(crate) fn tidy(document: &mut Value) {
    for_each_object(document, &mut |object| {
        for noise in ["explode", "deprecated", "style"] {
            if matches!(object.get(noise), Some(Value::Bool(_) | Value::Null)) {
                object.remove(noise);
            }
        }
        if object.get("tags").is_some_and(|tags| tags.as_array().is_some_and(Vec::is_empty)) {
            object.remove("tags");
        }
        // The framework puts a field's description beside its reference as a schema of its own.
        if let Some(Value::Array(parts)) = object.get_mut("allOf") {
            parts.retain(|part| !is_description_alone(part));
        }
        for bound in ["minimum", "maximum"] {
            if let Some(number) = object.get(bound).and_then(Value::as_f64)
                && number.fract() == 0.0
                && number.abs() <= crate::registry::MAX_SAFE_INTEGER as f64
            {
                object.insert(bound.to_owned(), json!(number as i64));
            }
        }
    });
}

fn is_description_alone(schema: &Value) -> bool {
    schema.as_object().is_some_and(|fields| fields.len() == 1 && fields.contains_key("description"))
}

/// The order in which people read a document.
pub(crate) fn in_order(document: Value) -> Value {
    let Value::Object(mut fields) = document else { return document };
    let mut ordered = Map::new();
    for key in ["openapi", "info", "servers", "security", "tags", "paths", "components"] {
        if let Some(value) = fields.remove(key) {
            ordered.insert(key.to_owned(), value);
        }
    }
    ordered.extend(fields);
    Value::Object(ordered)
}

fn for_each_object(value: &mut Value, change: &mut impl FnMut(&mut Map<String, Value>)) {
    match value {
        Value::Object(object) => {
            change(object);
            object.values_mut().for_each(|value| for_each_object(value, change));
        }
        Value::Array(items) => items.iter_mut().for_each(|value| for_each_object(value, change)),
        _ => {}
    }
}
