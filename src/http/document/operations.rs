//! The document of an API's operations, without a running service.

use std::collections::HashMap;
use std::marker::PhantomData;

use poem::endpoint::BoxEndpoint;
use poem::http::Method;
use poem_openapi::registry::{MetaApi, Registry};
use poem_openapi::{OpenApi, OpenApiService};
use serde_json::{Value, json};

use super::normalize::{move_paths_below, normalize};

/// The metadata of the operations `A`, which has no handlers.
struct Described<A>(PhantomData<A>);

impl<A: OpenApi> OpenApi for Described<A> {
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
pub(crate) fn document_of<A: OpenApi>(title: &str, description: &str, base: &str) -> Value {
    let described = Described::<A>(PhantomData);
    let service = OpenApiService::new(described, title, env!("CARGO_PKG_VERSION"));
    // The framework writes JSON; if it did not, the tests of the documents would fail.
    let spec = service.description(description).spec();
    let mut document: Value = serde_json::from_str(&spec).unwrap_or_default();
    document["openapi"] = "3.0.3".into();
    document["servers"] = json!([{ "url": base }]);
    move_paths_below(&mut document, base);
    normalize(&mut document);
    document
}
