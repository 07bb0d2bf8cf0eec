//! The OpenAPI document: what the framework knows of the operations, made into the document
//! that clients are generated from by steps that say what the framework can't. It exists in two
//! versions of OpenAPI; the newer one is derived from the other, nowhere else.

mod code_samples;
mod examples;
mod extensions;
pub(crate) mod normalize;
mod version;

use std::marker::PhantomData;

use bytes::Bytes;
use poem_openapi::OpenApiService;
use poem_openapi::registry::MetaSchema;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::Operations;
use super::query::QueryValue;
use super::security::SCHEME;

const TITLE: &str = "Gene Registry Read API";
const DESCRIPTION: &str = include_str!("description.md");

/// Stands for the server's address in a document that is ready but for it. It must be quoted in
/// YAML too, so that a JSON string can take its place in both.
const SERVER: &str = "@server";

/// A version of OpenAPI.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Version {
    /// 3.0.3, which every generator reads.
    #[default]
    V30,
    /// 3.1.0.
    V31,
}

impl QueryValue for Version {
    const ALLOWED: &'static str = "one of 3.0, 3.1";

    fn schema() -> MetaSchema {
        let enum_items = vec!["3.0".into(), "3.1".into()];
        MetaSchema { enum_items, default: Some("3.0".into()), ..MetaSchema::new("string") }
    }

    fn parse(given: Option<&str>) -> Option<Self> {
        match given {
            None | Some("3.0") => Some(Self::V30),
            Some("3.1") => Some(Self::V31),
            Some(_) => None,
        }
    }
}

/// How a document is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// JSON.
    Json,
    /// YAML.
    Yaml,
}

/// The document in all its forms, ready but for the server's address.
#[derive(Debug, Clone)]
pub struct Document {
    texts: [Text; 4],
    schemas: String,
}

/// One form: what stands before the server's address, and what after it.
#[derive(Debug, Clone)]
struct Text {
    before: String,
    after: String,
}

impl Document {
    /// The document of this release.
    pub fn new() -> Self {
        let v30 = value();
        let v31 = version::to_31(&v30);
        let schemas = v30["components"]["schemas"].to_string();
        let texts = [(&v30, Format::Json), (&v30, Format::Yaml)];
        let [json_30, yaml_30] = texts.map(|(value, format)| Text::of(value, format));
        let texts = [(&v31, Format::Json), (&v31, Format::Yaml)];
        let [json_31, yaml_31] = texts.map(|(value, format)| Text::of(value, format));
        Self { texts: [json_30, yaml_30, json_31, yaml_31], schemas }
    }

    /// The document of a service that is reached under `address`, which is a URL, or a path
    /// where the document was fetched from, without `/v1`; empty is the root there.
    pub fn text(&self, version: Version, format: Format, address: &str) -> Bytes {
        let Text { before, after } = match (version, format) {
            (Version::V30, Format::Json) => &self.texts[0],
            (Version::V30, Format::Yaml) => &self.texts[1],
            (Version::V31, Format::Json) => &self.texts[2],
            (Version::V31, Format::Yaml) => &self.texts[3],
        };
        let server = format!("{}/v1", address.trim_end_matches('/'));
        format!("{before}{}{after}", Value::from(server)).into()
    }

    /// A fingerprint of the answers' schemas: differs when a client could tell the difference.
    pub fn fingerprint(&self) -> String {
        digest(self.schemas.as_bytes())
    }
}

impl Default for Document {
    fn default() -> Self {
        Self::new()
    }
}

impl Text {
    fn of(document: &Value, format: Format) -> Self {
        let text = match format {
            Format::Json => serde_json::to_string_pretty(document).unwrap_or_default() + "\n",
            Format::Yaml => serde_saphyr::to_string(document).unwrap_or_default(),
        };
        // It is there: `value` puts it in. A document without it would fail the tests.
        let (before, after) = text.split_once(&format!("\"{SERVER}\"")).unwrap_or_default();
        Self { before: before.to_owned(), after: after.to_owned() }
    }
}

fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().take(6).map(|byte| format!("{byte:02x}")).collect()
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

/// As 3.0.3.
fn value() -> Value {
    let described = Described::<Operations>::default();
    let version = env!("CARGO_PKG_VERSION");
    let service = OpenApiService::new(described, TITLE, version).description(DESCRIPTION);
    // What the framework writes is JSON; were it not, the committed document's test would fail.
    let mut document: Value = serde_json::from_str(&service.spec()).unwrap_or_default();
    document["openapi"] = "3.0.3".into();
    document["servers"] = json!([{ "url": SERVER }]);
    document["security"] = json!([{ SCHEME: [] }]);
    normalize::move_paths_below(&mut document, "/v1");
    normalize::normalize(&mut document);
    examples::add_to(&mut document);
    code_samples::add_to(&mut document);
    extensions::add_to(&mut document);
    normalize::in_order(document)
}

/// Calls `change` on every object, outer ones first.
fn for_each_object(
    value: &mut Value,
    change: &mut impl FnMut(&mut serde_json::Map<String, Value>),
) {
    match value {
        Value::Object(object) => {
            change(object);
            object.values_mut().for_each(|value| for_each_object(value, change));
        }
        Value::Array(items) => items.iter_mut().for_each(|value| for_each_object(value, change)),
        _ => {}
    }
}
