//! Generates the OpenAPI document of an API from the types of its operations; no handlers are needed.

use std::collections::HashMap;
use std::marker::PhantomData;

use poem::endpoint::BoxEndpoint;
use poem::http::Method;
use poem_openapi::registry::{MetaApi, Registry};
use poem_openapi::{OpenApi, OpenApiService};
use serde_json::{Value, json};

use super::normalize::{move_paths_below, normalize};

/// Describes the operations `A` to the framework without adding their routes.
struct MetadataOnly<A>(PhantomData<A>);

impl<A: OpenApi> OpenApi for MetadataOnly<A> {
    fn meta() -> Vec<MetaApi> {
        A::meta()
    }

    fn register(registry: &mut Registry) {
        A::register(registry);
    }

    fn add_routes(self, _: &mut HashMap<String, HashMap<Method, BoxEndpoint<'static>>>) {}
}

/// The normalized OpenAPI 3.0.3 document of the operations `A`, whose routes begin with `base`. In
/// the document, `base` is not part of the paths but the server's URL.
pub(crate) fn openapi_document<A: OpenApi>(title: &str, description: &str, base: &str) -> Value {
    let described = MetadataOnly::<A>(PhantomData);
    let service = OpenApiService::new(described, title, env!("CARGO_PKG_VERSION"));
    // Always valid JSON; the tests of the documents would fail on anything else.
    let spec = service.description(description).spec();
    let mut document: Value = serde_json::from_str(&spec).unwrap_or_default();
    document["openapi"] = "3.0.3".into();
    document["servers"] = json!([{ "url": base }]);
    move_paths_below(&mut document, base);
    normalize(&mut document);
    document
}
