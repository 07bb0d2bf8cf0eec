//! The OpenAPI document of the control API.

use bytes::Bytes;
use serde_json::{Value, json};

use super::keys::KeysApi;
use super::login::LoginApi;
use crate::http::document::{
    CONTROLS, DocumentFormat, OpenApiVersion, forbid, in_order, openapi_document,
    require_credentials,
};

const TITLE: &str = "Gene Registry Control API";
const DESCRIPTION: &str = "Login, and the API keys of the user who is logged in. Not part of \
    the public API: it is served on a separate listener, for the command line (`gene-registry \
    login`, `gene-registry api-key`) and for similar tools.";

/// The operations.
type ControlOperations = (LoginApi, KeysApi);

/// The path under which the operations are served.
const BASE: &str = "/control/v1";

/// The path of the document.
pub(super) const OPENAPI_PATH: &str = "/control/v1/openapi.json";

/// Beside each pattern that ends in `$`, a line feed is forbidden: before one at the end, `$` matches in
/// Python, PCRE and Java, but not in ECMAScript and RE2. Each matches the whole text, because some clients
/// look for a match of the whole, or from its beginning on.
const PREFIX: &str = "^(gr_)?[A-Za-z0-9]{4,8}$";
const NOT_IN_PREFIX: &str = "[^A-Za-z0-9_]";

// The hyphen is escaped for the flag `v` of ECMAScript.
const SCOPE: &str = r"^[a-z0-9:._\-]+$";
const NOT_IN_SCOPE: &str = r"[^a-z0-9:._\-]";

/// A name has a character that is no space. Without a dot, which does not match U+2028 in some engines.
const NAME: &str = r"^ *[^ ][^\n]*$";

/// The text of the document. Its server is at `public_url`, or, without one, at the address from
/// which the document is fetched.
pub fn control_document(
    version: OpenApiVersion,
    format: DocumentFormat,
    public_url: Option<&str>,
) -> Bytes {
    let mut document = openapi_document::<ControlOperations>(TITLE, DESCRIPTION, BASE);
    let server = format!("{}{BASE}", public_url.unwrap_or_default().trim_end_matches('/'));
    document["servers"][0]["url"] = server.into();
    let scheme = json!({
        "type": "http",
        "description": "An access token of the issuer, or a login token; see `GET /login`.",
        "scheme": "bearer",
    });
    require_credentials(&mut document, "Bearer", scheme, &["/login"]);
    document["info"]["contact"] = json!({ "name": "The operator of this registry" });
    let schemas = &mut document["components"]["schemas"];
    make_oidc_nullable(schemas);
    for request in ["CreateApiKey", "UpdateApiKey", "RevokeApiKey", "RotateApiKey"] {
        restrict(&mut schemas[request]);
    }
    version.convert(&mut document);
    format.text(&in_order(document))
}

/// Adds what a request must not have to its schema.
fn restrict(request: &mut Value) {
    request["additionalProperties"] = false.into();
    let properties = request["properties"].as_object_mut().into_iter().flatten();
    for (name, schema) in properties {
        match name.as_str() {
            "name" => {
                schema["pattern"] = NAME.into();
                forbid(schema, CONTROLS);
            }
            "prefix" => {
                schema["pattern"] = PREFIX.into();
                forbid(schema, NOT_IN_PREFIX);
            }
            "scopes" => {
                schema["items"] = json!({
                    "type": "string", "minLength": 1, "maxLength": 64, "pattern": SCOPE,
                });
                forbid(&mut schema["items"], NOT_IN_SCOPE);
            }
            _ => {}
        }
    }
}

/// Inlines the schema `Oidc` and makes it nullable, which a reference cannot be in OpenAPI 3.0.3.
fn make_oidc_nullable(schemas: &mut Value) {
    let Some(mut oidc) = schemas.as_object_mut().and_then(|schemas| schemas.remove("Oidc")) else {
        return;
    };
    oidc["nullable"] = true.into();
    let login = &mut schemas["Login"];
    login["properties"]["oidc"] = oidc;
    if let Some(required) = login["required"].as_array_mut() {
        required.push("oidc".into());
    }
}
