//! Examples in the document: requests that can be tried on the sample registry, and what it
//! really answers to them.

use futures_util::FutureExt;
use serde::Serialize;
use serde_json::{Value, json};

use crate::api::ErrorCode;
use crate::registry::{
    DomainName, Fidelity, GeneFilter, GeneId, GeneSearch, Page, Sort, Timestamp,
};
use crate::upstream::{Catalogue, Embedded, Read, Upstream, UpstreamError};

/// The sample registry's best gene.
pub(super) const GENE: &str = "db8dde37-1518-4afb-94b1-f5723d34ff6e";
pub(super) const DOMAIN: &str = "search";
/// An entity tag, in the form that they have here.
pub(super) const TAG: &str = "\"1f9c1bd80d9d2a5b0e6f\"";
const INSTALL: &str = "playground install {id}";

/// When the examples were read; fixed, so that the document is always the same.
const READ_AT: Timestamp = Timestamp::constant(1_767_225_600, 0);

/// Adds them.
pub(super) fn add_to(document: &mut Value) {
    for (path, name, example) in [
        ("/genes", "domain", json!(DOMAIN)),
        ("/genes", "fidelity", json!(Fidelity::Native)),
        ("/genes", "sort", json!(Sort::Fitness.as_str())),
        ("/genes", "limit", json!(2)),
        ("/genes", "offset", json!(0)),
        ("/genes/{id}/phenotype", "id", json!(GENE)),
        ("/arena/insights", "domain", json!(DOMAIN)),
        ("/genes", "If-None-Match", json!(TAG)),
        ("/genes/{id}/phenotype", "If-None-Match", json!(TAG)),
        ("/arena/insights", "If-None-Match", json!(TAG)),
    ] {
        let parameters = &mut document["paths"][path]["get"]["parameters"];
        for parameter in parameters.as_array_mut().into_iter().flatten() {
            if parameter["name"] == name {
                parameter["example"] = example.clone();
            }
        }
    }
    for (path, example) in answers().unwrap_or_default() {
        add_answers(&mut document["paths"][path]["get"]["responses"], bad_request(path), example);
    }
}

/// `None` only if the sample registry did not hold what the examples are about, which the
/// committed document would show.
fn answers() -> Option<[(&'static str, Value); 3]> {
    let catalogue = Catalogue::sample().ok()?;
    let sample = Embedded::from_catalogue(&catalogue, READ_AT, vec![], INSTALL.to_owned());
    let domain: DomainName = DOMAIN.parse().ok()?;
    let filter = GeneFilter { domain: Some(domain.clone()), fidelity: Some(Fidelity::Native) };
    let page = Page::new(2, 0).ok()?;
    let search = GeneSearch { filter, sort: Sort::Fitness, page };
    let id: GeneId = GENE.parse().ok()?;
    Some([
        ("/genes", now(sample.search(&search))?),
        ("/genes/{id}/phenotype", now(sample.phenotype(id))?),
        ("/arena/insights", now(sample.insights(&domain, READ_AT))?),
    ])
}

/// The embedded registry never waits.
fn now<T: Serialize>(read: impl Future<Output = Result<Read<T>, UpstreamError>>) -> Option<Value> {
    serde_json::to_value(read.now_or_never()?.ok()?.value).ok()
}

/// What is likely to be wrong in a request.
fn bad_request(path: &str) -> (ErrorCode, &'static str) {
    match path {
        "/genes/{id}/phenotype" => (
            ErrorCode::InvalidId,
            "id must be a UUID of 8-4-4-4-12 hexadecimal digits; given: \"db8dde37\"",
        ),
        "/arena/insights" => (
            ErrorCode::MissingParam,
            "domain is required: 1 to 255 characters without control characters",
        ),
        _ => (ErrorCode::MissingParam, "limit must be an integer of 1 to 50; given: \"51\""),
    }
}

fn add_answers(responses: &mut Value, bad: (ErrorCode, &'static str), answer: Value) {
    set_example(&mut responses["200"], answer);
    for (status, code, error) in [
        ("400", bad.0, bad.1),
        (
            "401",
            ErrorCode::Unauthorized,
            "a valid API key with the scope read is needed in the header X-API-Key",
        ),
        ("404", ErrorCode::NotFound, "there is no such gene or domain"),
        ("405", ErrorCode::MethodNotAllowed, "only GET is supported here"),
        (
            "429",
            ErrorCode::RateLimited,
            "the limit of 30 requests a minute is used up; try again in 42 s",
        ),
        (
            "500",
            ErrorCode::Internal,
            "this service has a fault; it has been logged under this answer's X-Request-Id",
        ),
        ("502", ErrorCode::DbError, "the registry's database cannot be read at the moment"),
        (
            "503",
            ErrorCode::Unavailable,
            "the service cannot take this request at the moment; try again",
        ),
    ] {
        set_example(&mut responses[status], json!({ "error": error, "code": code }));
    }
}

fn set_example(response: &mut Value, example: Value) {
    response["content"]["application/json"]["example"] = example;
}
