//! The document of this release. It is built once; each of its texts is written for one version,
//! format and server address.

use bytes::Bytes;
use data_encoding::HEXLOWER;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::{code_samples, examples, extensions};
use crate::api::operations::PublicOperations;
use crate::http::document::{
    DocumentFormat, OpenApiVersion, in_order, openapi_document, require_credentials,
};

const TITLE: &str = "Gene Registry Read API";
const DESCRIPTION: &str = include_str!("description.md");
const SCHEME: &str = "ApiKey";

/// The document, as OpenAPI 3.0.3 and without the server's address.
#[derive(Debug, Clone)]
pub struct Document(Value);

impl Document {
    /// The text of the document of a service at `address`: a URL without `/v1`, or a path on the
    /// server from which the document is fetched; empty for the root there.
    pub fn text(&self, version: OpenApiVersion, format: DocumentFormat, address: &str) -> Bytes {
        let mut document = self.0.clone();
        document["servers"][0]["url"] = format!("{}/v1", address.trim_end_matches('/')).into();
        version.convert(&mut document);
        format.text(&document)
    }

    /// A fingerprint of the schemas: 12 hexadecimal digits that change when any schema does.
    pub fn fingerprint(&self) -> String {
        let schemas = self.0["components"]["schemas"].to_string();
        HEXLOWER.encode(&Sha256::digest(schemas)[..6])
    }
}

impl Default for Document {
    fn default() -> Self {
        let mut document = openapi_document::<PublicOperations>(TITLE, DESCRIPTION, "/v1");
        let scheme = json!({
            "type": "apiKey",
            "description": "An API key with the scope `read`.",
            "name": "X-API-Key",
            "in": "header",
        });
        require_credentials(&mut document, SCHEME, scheme, &[]);
        document["security"] = json!([{ SCHEME: [] }]);
        examples::add_to(&mut document);
        code_samples::add_to(&mut document);
        extensions::add_to(&mut document);
        Self(in_order(document))
    }
}
