//! The metrics of a canary that runs, and the listener that serves them.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use poem::http::{StatusCode, header};
use poem::{Request, Response};
use tokio::net::TcpListener;

use super::report::{Check, Outcome, RoundReport};
use super::target::Requests;
use crate::cli::command::CommandError;
use crate::net::io_reason;
use crate::ops::Exposition;
use crate::registry::Timestamp;
use crate::server::{ConnectionLimits, Handler, InvalidHost, Listener, Peers, Serving, serve};
use crate::sync::lock;

const BROKEN: &str = "gene_registry_canary_broken";
const ROUNDS: &str = "gene_registry_canary_rounds_total";
const REQUESTS: &str = "gene_registry_canary_requests_total";
const LAST_ROUND: &str = "gene_registry_canary_last_round_timestamp_seconds";
const REVOCATION: &str = "gene_registry_canary_revocation_seconds";

const LIMITS: ConnectionLimits = ConnectionLimits {
    connections: 16,
    head: Duration::from_secs(5),
    idle: Duration::from_secs(30),
    response: Duration::from_secs(30),
    grace: Duration::from_secs(1),
};

/// What the rounds have shown so far.
#[derive(Debug)]
pub(super) struct CanaryMetrics {
    requests: Requests,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    rounds: u64,
    /// The end of the last complete round, at first the start.
    last_round: Timestamp,
    /// The last result of each check that was done.
    broken: Vec<(Check, bool)>,
    revocation: Option<Duration>,
}

impl CanaryMetrics {
    pub(super) fn new(requests: Requests) -> Arc<Self> {
        let state = State { last_round: Timestamp::now(), ..State::default() };
        Arc::new(Self { requests, state: Mutex::new(state) })
    }

    /// Takes over the results of a round. A check that was not done keeps its last result.
    pub(super) fn record(&self, report: &RoundReport) {
        let mut state = lock(&self.state);
        state.rounds += 1;
        state.last_round = Timestamp::now();
        state.revocation = report.revocation.or(state.revocation);
        for (check, outcome) in &report.outcomes {
            let is_broken = match outcome {
                Outcome::Kept(_) => false,
                Outcome::Broken(_) => true,
                Outcome::NotChecked(_) => continue,
            };
            state.broken.retain(|(known, _)| known != check);
            state.broken.push((*check, is_broken));
        }
    }

    fn text(&self) -> String {
        let (state, mut out) = (lock(&self.state), Exposition::default());
        out.sample(ROUNDS, &[], state.rounds as f64);
        out.sample(REQUESTS, &[], self.requests.sent() as f64);
        for (check, is_broken) in &state.broken {
            out.flag(BROKEN, &[("check", check.as_str())], *is_broken);
        }
        out.sample(LAST_ROUND, &[], state.last_round.as_second() as f64);
        if let Some(took) = state.revocation {
            out.sample(REVOCATION, &[], took.as_secs_f64());
        }
        out.render()
    }

    /// Serves the metrics at `/metrics`, and probes of the process at `/livez` and `/readyz`.
    pub(super) async fn serve(
        self: &Arc<Self>,
        address: SocketAddr,
    ) -> Result<Serving, CommandError> {
        let failed = |error: std::io::Error| {
            format!("--metrics: cannot listen on {address}: {}", io_reason(&error))
        };
        let tcp = TcpListener::bind(address).await.map_err(failed)?;
        let listener = Listener::new(tcp, None, Arc::new(Peers::new(Vec::new())));
        Ok(serve(listener, Arc::new(MetricsPage(Arc::clone(self))), LIMITS).map_err(failed)?)
    }
}

struct MetricsPage(Arc<CanaryMetrics>);

impl Handler for MetricsPage {
    async fn handle(&self, request: Request, host: Result<(), InvalidHost>) -> Response {
        match (host, request.uri().path()) {
            (Ok(()), "/metrics") => Response::builder()
                .header(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")
                .body(self.0.text()),
            // That it runs; `/metrics` has what it has found.
            (Ok(()), "/livez" | "/readyz") => StatusCode::OK.into(),
            (Ok(()), _) => StatusCode::NOT_FOUND.into(),
            (Err(_), _) => StatusCode::BAD_REQUEST.into(),
        }
    }
}
