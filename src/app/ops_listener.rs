//! The operations listener: `/livez`, `/readyz`, `/metrics`. It needs no API key, answers from
//! memory, and does not count its own requests.

use std::sync::Arc;

use poem::http::{Method, StatusCode, header};
use poem::{Body, Request, Response};
use serde::Serialize;

use super::services::Services;
use crate::ops::Dependencies;
use crate::server::{Handler, InvalidHost};

/// The handler of the operations listener.
pub(super) struct OpsApi(pub(super) Arc<Services>);

#[derive(Serialize)]
struct Readiness {
    status: &'static str,
    #[serde(flatten)]
    dependencies: Dependencies,
}

impl Handler for OpsApi {
    async fn handle(&self, request: Request, host: Result<(), InvalidHost>) -> Response {
        if let Err(error) = host {
            return text(StatusCode::BAD_REQUEST, format!("{error}\n"));
        }
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            return text(StatusCode::METHOD_NOT_ALLOWED, "only GET is supported\n");
        }
        match request.uri().path() {
            "/livez" => text(StatusCode::OK, "alive\n"),
            "/readyz" => self.readiness(),
            "/metrics" => self.metrics(),
            _ => text(StatusCode::NOT_FOUND, "not found; available: /livez, /readyz, /metrics\n"),
        }
    }
}

impl OpsApi {
    fn readiness(&self) -> Response {
        let Self(services) = self;
        let ready = services.health.is_ready();
        let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
        let (word, dependencies) = (services.health.status(), services.dependencies());
        let body = Readiness { status: word, dependencies };
        Response::builder()
            .status(status)
            .header(header::CONTENT_TYPE, "application/json")
            .body(serde_json::to_vec(&body).unwrap_or_default())
    }

    fn metrics(&self) -> Response {
        Response::builder()
            .header(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")
            .body(self.0.metrics.render(|out| self.0.collect_metrics(out)))
    }
}

fn text(status: StatusCode, body: impl Into<Body>) -> Response {
    Response::builder()
        .status(status)
        .header(header::CONTENT_TYPE, "text/plain; charset=utf-8")
        .body(body)
}
