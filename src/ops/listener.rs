//! The operations listener: `/livez`, `/readyz`, `/metrics`. Needs no key, reads nothing,
//! counts nothing.

use std::sync::Arc;

use poem::http::{Method, StatusCode, header};
use poem::{Request, Response};
use serde::Serialize;

use super::exposition::Exposition;
use super::health::{Dependency, Health};
use super::metrics::Metrics;
use crate::server::Handler;

/// How the dependencies are at the moment.
#[derive(Debug, Clone, Serialize)]
pub struct Dependencies {
    /// The registry's database: its primary, or a standby.
    pub upstream: Dependency,
    /// Its primary, where there are standbys to be told from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub primary: Option<Dependency>,
    /// Each of its standbys, if there are any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub standbys: Vec<Dependency>,
    /// Redis, for the shared cache.
    pub redis_read: Dependency,
    /// Redis, for limits and for filling the shared cache.
    pub redis_write: Dependency,
}

/// Asks how the dependencies are; answers from memory.
pub type AskDependencies = Arc<dyn Fn() -> Dependencies + Send + Sync>;

/// Looks how everything is at the moment, for the metrics; answers from memory.
pub type LookAround = Arc<dyn Fn(&mut Exposition) + Send + Sync>;

/// What the operations listener serves.
pub struct OpsApi {
    /// Readiness.
    pub health: Arc<Health>,
    /// Metrics.
    pub metrics: Arc<Metrics>,
    /// Asks how the dependencies are; answers from memory.
    pub dependencies: AskDependencies,
    /// Looks how everything is, for the metrics.
    pub look: LookAround,
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
        Response::builder()
            .header(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")
            .body(self.metrics.render(&*self.look))
    }
}

fn text(status: StatusCode, body: &'static str) -> Response {
    Response::builder()
        .status(status)
        .header(header::CONTENT_TYPE, "text/plain; charset=utf-8")
        .body(body)
}
