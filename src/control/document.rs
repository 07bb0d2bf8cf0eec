//! The control API's own document.

use bytes::Bytes;
use poem_openapi::{OpenApi, OpenApiService};
use serde_json::{Value, json};

use super::keys::KeysApi;
use super::login::LoginApi;
use crate::api::document::Described;
use crate::api::document::normalize::{in_order, move_paths_below, normalize};

const TITLE: &str = "Gene Registry Control API";
const DESCRIPTION: &str = "Login, and the API keys of whoever has logged in. Not part of the \
    public API: it is served on a listener of its own, for the command line (`gene-registry login`, \
    `gene-registry api-key`) and for whoever builds something like it.";

/// The operations.
pub(super) type Operations = (LoginApi, KeysApi);

/// Where the operations are.
pub(super) const BASE: &str = "/control/v1";

/// The document of a listener that is reached under `public_url`, or, where that is not known,
/// under whatever address the document itself was fetched from. As JSON.
pub fn document(public_url: Option<&str>) -> Bytes {
    let described = Described::<Operations>::default();
    let version = env!("CARGO_PKG_VERSION");
    let service = OpenApiService::new(described, TITLE, version).description(DESCRIPTION);
    // What the framework writes is JSON; were it not, the tests would fail.
    let mut document: Value = serde_json::from_str(&service.spec()).unwrap_or_default();
    document["openapi"] = "3.0.3".into();
    let server = format!("{}{BASE}", public_url.unwrap_or_default().trim_end_matches('/'));
    document["servers"] = json!([{ "url": server }]);
    move_paths_below(&mut document, BASE);
    say_what_may_be_null(&mut document);
    normalize(&mut document);
    let mut json = serde_json::to_string_pretty(&in_order(document)).unwrap_or_default();
    json.push('\n');
    json.into()
}

/// A reference can't say that there may be null instead (OpenAPI 3.0.3): what it refers to can.
fn say_what_may_be_null(document: &mut Value) {
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

/// The operations as routes.
pub(super) fn operations(login: LoginApi, keys: KeysApi) -> [Routes; 2] {
    let (mut open, mut guarded) = (Routes::new(), Routes::new());
    login.add_routes(&mut open);
    keys.add_routes(&mut guarded);
    [open, guarded]
}

/// Endpoints by path and method.
pub(super) type Routes = std::collections::HashMap<
    String,
    std::collections::HashMap<poem::http::Method, poem::endpoint::BoxEndpoint<'static>>,
>;
