//! Examples in the document: requests that work on the sample registry, with its real responses.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use serde::Serialize;
use serde_json::{Value, json};

use crate::api::error::{ApiError, Overload};
use crate::http::error::{ErrorResponse, InvalidParameter};
use crate::http::parameter::ParameterValue;
use crate::keys::AuthDenied;
use crate::limit::Decision;
use crate::registry::{
    Catalogue, DomainName, Fidelity, GeneFilter, GeneId, GeneSearch, Page, PageLimit, PageOffset,
    Sort, Timestamp,
};
use crate::upstream::{Embedded, Read, RegistryReader, UpstreamError};

/// The sample registry's best gene.
pub(super) const GENE: &str = "db8dde37-1518-4afb-94b1-f5723d34ff6e";
pub(super) const DOMAIN: &str = "search";
/// An entity tag of the form that the service uses.
pub(super) const TAG: &str = "\"1f9c1bd80d9d2a5b0e6f\"";
const INSTALL: &str = "playground install {id}";

/// The time of the examples; fixed, so that the document is always the same.
const READ_AT: Timestamp = Timestamp::constant(1_767_225_600, 0);

/// Adds examples of parameters and bodies to each operation.
pub(super) fn add_to(document: &mut Value) {
    for (path, name, example) in [
        ("/genes", "domain", json!(DOMAIN)),
        ("/genes", "fidelity", json!(Fidelity::Native)),
        ("/genes", "sort", json!(Sort::Fitness.as_str())),
        ("/genes", "limit", json!(2)),
        ("/genes", "offset", json!(0)),
        ("/genes/{id}/phenotype", "id", json!(GENE)),
        ("/arena/insights", "domain", json!(DOMAIN)),
    ] {
        let parameters = &mut document["paths"][path]["get"]["parameters"];
        for parameter in parameters.as_array_mut().into_iter().flatten() {
            if parameter["name"] == name {
                parameter["example"] = example.clone();
            }
        }
    }
    for (path, example) in results().unwrap_or_default() {
        add_bodies(&mut document["paths"][path]["get"]["responses"], bad_request(path), example);
    }
}

/// The results of the examples. `None` only if the sample registry lacked their genes, which the
/// test of the committed document would show.
fn results() -> Option<[(&'static str, Value); 3]> {
    let catalogue = Catalogue::sample().ok()?;
    let sample = Embedded::from_catalogue(&catalogue, READ_AT, vec![], INSTALL.to_owned());
    let domain: DomainName = DOMAIN.parse().ok()?;
    let filter = GeneFilter { domain: Some(domain.clone()), fidelity: Some(Fidelity::Native) };
    let page = Page::new(PageLimit::new(2)?, PageOffset::default());
    let search = GeneSearch { filter, sort: Sort::Fitness, page };
    let id: GeneId = GENE.parse().ok()?;
    Some([
        ("/genes", now(sample.search(&search))?),
        ("/genes/{id}/phenotype", now(sample.phenotype(id))?),
        ("/arena/insights", now(sample.insights(&domain, READ_AT))?),
    ])
}

/// The JSON of a read that never waits, since the registry is embedded.
fn now<T: Serialize>(read: impl Future<Output = Result<Read<T>, UpstreamError>>) -> Option<Value> {
    serde_json::to_value(read.now_or_never()?.ok()?.value).ok()
}

/// A likely mistake in a request.
fn bad_request(path: &str) -> ApiError {
    match path {
        "/genes/{id}/phenotype" => {
            ApiError::InvalidId(InvalidParameter::new("id", GeneId::ALLOWED, "db8dde37"))
        }
        "/arena/insights" => InvalidParameter::missing("domain", DomainName::ALLOWED).into(),
        _ => InvalidParameter::new("limit", PageLimit::ALLOWED, "51").into(),
    }
}

fn add_bodies(responses: &mut Value, bad_request: ApiError, result: Value) {
    set_example(&mut responses["200"], result);
    for error in [
        bad_request,
        ApiError::Unauthorized(AuthDenied::Missing),
        ApiError::NotFound,
        ApiError::MethodNotAllowed { allow: "GET".into() },
        ApiError::RateLimited(Decision::of(false, 30, 30, Duration::from_secs(41))),
        ApiError::Internal,
        ApiError::Database(Arc::new(UpstreamError::Timeout)),
        ApiError::Unavailable(Overload::Reads),
    ] {
        let (status, code) = error.status_and_code();
        let body = json!({ "error": error.to_string(), "code": code });
        set_example(&mut responses[status.as_str()], body);
    }
}

fn set_example(response: &mut Value, example: Value) {
    response["content"]["application/json"]["example"] = example;
}
