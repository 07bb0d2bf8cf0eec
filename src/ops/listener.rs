//! The operations listener: `/livez`, `/readyz`, `/metrics`. Needs no key, reads nothing,
//! counts nothing.

use std::sync::Arc;

use poem::http::{Method, StatusCode, header};
use poem::{Request, Response};
use serde::Serialize;

use super::health::{Dependency, Health};
use super::metrics::Metrics;
use crate::server::Handler;

/// How the dependencies are at the moment.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Dependencies {
    /// The registry's database.
    pub upstream: Dependency,
    /// Redis, for the shared cache.
    pub redis_read: Dependency,
    /// Redis, for limits and for filling the shared cache.
    pub redis_write: Dependency,
    /// Rows of the registry that are left out because they break the contract.
    #[serde(skip)]
    pub broken_rows: i64,
}

/// Asks how the dependencies are; answers from memory.
pub type AskDependencies = Arc<dyn Fn() -> Dependencies + Send + Sync>;

/// What the operations listener serves.
pub struct OpsApi {
    /// Readiness.
    pub health: Arc<Health>,
    /// Metrics.
    pub metrics: Arc<Metrics>,
    /// Asks how the dependencies are; answers from memory.
    pub dependencies: AskDependencies,
}

#[derive(Serialize)]
struct Readiness {
    status: &'static str,
    #[serde(flatten)]
    dependencies: Dependencies,
}

impl Handler for OpsApi {
    async fn answer(&self, request: Request) -> Response {
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            return text(StatusCode::METHOD_NOT_ALLOWED, "only GET is supported\n");
        }
        match request.uri().path() {
            "/livez" => text(StatusCode::OK, "alive\n"),
            "/readyz" => self.readiness(),
            "/metrics" => self.metrics(),
            _ => text(StatusCode::NOT_FOUND, "here are /livez, /readyz and /metrics\n"),
        }
    }
}

impl OpsApi {
    fn readiness(&self) -> Response {
        let ready = self.health.is_ready();
        let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
        let body = Readiness { status: self.health.status(), dependencies: (self.dependencies)() };
        Response::builder()
            .status(status)
            .header(header::CONTENT_TYPE, "application/json")
            .body(serde_json::to_vec(&body).unwrap_or_default())
    }

    fn metrics(&self) -> Response {
        let dependencies = (self.dependencies)();
        self.metrics.broken_rows(dependencies.broken_rows);
        self.metrics.upstream_in_use(dependencies.upstream == Dependency::Up);
        self.metrics.redis_in_use("read", dependencies.redis_read == Dependency::Up);
        self.metrics.redis_in_use("write", dependencies.redis_write == Dependency::Up);
        Response::builder()
            .header(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")
            .body(self.metrics.render())
    }
}

fn text(status: StatusCode, body: &'static str) -> Response {
    Response::builder()
        .status(status)
        .header(header::CONTENT_TYPE, "text/plain; charset=utf-8")
        .body(body)
}
