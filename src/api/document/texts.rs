//! The texts of the document, made once. Only the server's address is inserted for each request.

use bytes::Bytes;
use data_encoding::HEXLOWER;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::form::{DocumentFormat, OpenApiVersion};
use super::version::to_31;
use super::{code_samples, examples, extensions};
use crate::api::api_key_scheme::ApiKeyScheme;
use crate::api::operations::PublicOperations;
use crate::http::document::{document_of, in_order};
use crate::http::security::SecurityScheme;

const TITLE: &str = "Gene Registry Read API";
const DESCRIPTION: &str = include_str!("description.md");

/// Placeholder for the server's URL. YAML must quote it as JSON does, so that a JSON string can
/// replace it in both.
const SERVER: &str = "@server";

/// The document in all its forms, without the server's address.
#[derive(Debug, Clone)]
pub struct Document {
    /// By version, then by format.
    texts: [[ServerTemplate; 2]; 2],
    schemas: String,
}

/// The text of one form before and after the server's address.
#[derive(Debug, Clone)]
struct ServerTemplate {
    before: String,
    after: String,
}

impl Document {
    /// The document of this release.
    pub fn new() -> Self {
        let v30 = document();
        let v31 = to_31(&v30);
        let schemas = v30["components"]["schemas"].to_string();
        let texts = [&v30, &v31].map(|document| {
            [DocumentFormat::Json, DocumentFormat::Yaml]
                .map(|format| ServerTemplate::of(document, format))
        });
        Self { texts, schemas }
    }

    /// The document of a service at `address`: a URL without `/v1`, or a path on the server from
    /// which the document is fetched; empty for the root there.
    pub fn text(&self, version: OpenApiVersion, format: DocumentFormat, address: &str) -> Bytes {
        let ServerTemplate { before, after } = &self.texts[version as usize][format as usize];
        let server = format!("{}/v1", address.trim_end_matches('/'));
        format!("{before}{}{after}", Value::from(server)).into()
    }

    /// A fingerprint of the schemas: 12 hexadecimal digits that change when any schema does.
    pub fn fingerprint(&self) -> String {
        HEXLOWER.encode(&Sha256::digest(&self.schemas)[..6])
    }
}

impl Default for Document {
    fn default() -> Self {
        Self::new()
    }
}

impl ServerTemplate {
    fn of(document: &Value, format: DocumentFormat) -> Self {
        let text = match format {
            DocumentFormat::Json => {
                serde_json::to_string_pretty(document).unwrap_or_default() + "\n"
            }
            DocumentFormat::Yaml => serde_saphyr::to_string(document).unwrap_or_default(),
        };
        // `document` puts it in; without it, the test of the committed document would fail.
        let (before, after) = text.split_once(&format!("\"{SERVER}\"")).unwrap_or_default();
        Self { before: before.to_owned(), after: after.to_owned() }
    }
}

/// The document as OpenAPI 3.0.3.
fn document() -> Value {
    let mut document = document_of::<PublicOperations>(TITLE, DESCRIPTION, SERVER, "/v1");
    document["security"] = json!([{ ApiKeyScheme::NAME: [] }]);
    examples::add_to(&mut document);
    code_samples::add_to(&mut document);
    extensions::add_to(&mut document);
    in_order(document)
}
