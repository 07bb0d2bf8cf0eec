//! The OpenAPI document of the control API.

use bytes::Bytes;
use serde_json::{Value, json};

use super::keys::KeysApi;
use super::login::LoginApi;
use crate::http::document::{in_order, json_text, openapi_document, require_credentials};

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

/// The JSON of the document. Its server is at `public_url`, or, without one, at the address from
/// which the document is fetched.
pub(super) fn document(public_url: Option<&str>) -> Bytes {
    let mut document = openapi_document::<ControlOperations>(TITLE, DESCRIPTION, BASE);
    let server = format!("{}{BASE}", public_url.unwrap_or_default().trim_end_matches('/'));
    document["servers"][0]["url"] = server.into();
    let scheme = json!({
        "type": "http",
        "description": "An access token of the issuer, or a login token; see `GET /login`.",
        "scheme": "bearer",
    });
    require_credentials(&mut document, "Bearer", scheme, &["/login"]);
    make_oidc_nullable(&mut document);
    json_text(&in_order(document))
}

/// Inlines the schema `Oidc` and makes it nullable, which a reference cannot be in OpenAPI 3.0.3.
fn make_oidc_nullable(document: &mut Value) {
    let schemas = &mut document["components"]["schemas"];
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
