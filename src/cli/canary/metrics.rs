//! The metrics of a canary that runs, and the listener that serves them.

use std::collections::BTreeMap;
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
const INTERVAL: &str = "gene_registry_canary_interval_seconds";
const LAST_CHECK: &str = "gene_registry_canary_last_check_timestamp_seconds";
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
    interval: Duration,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    rounds: u64,
    /// When each check was last done; at first the start, for those that must be done.
    last: BTreeMap<Check, Timestamp>,
    /// The last result of each check that was done.
    broken: BTreeMap<Check, bool>,
    revocation: Option<Duration>,
}

impl CanaryMetrics {
    /// Of a canary whose rounds start at this interval, and which checks revocations or not.
    pub(super) fn new(requests: Requests, interval: Duration, has_revocation: bool) -> Arc<Self> {
        let checks = [Check::Responds, Check::Limit].into_iter();
        let checks = checks.chain(has_revocation.then_some(Check::Revocation));
        let last = checks.map(|check| (check, Timestamp::now())).collect();
        let state = State { last, ..State::default() };
        Arc::new(Self { requests, interval, state: Mutex::new(state) })
    }

    /// Takes over the results of a round. A check that was not done keeps its last result.
    pub(super) fn record(&self, report: &RoundReport) {
        let mut state = lock(&self.state);
        state.rounds += 1;
        state.revocation = report.revocation.or(state.revocation);
        for (check, outcome) in &report.outcomes {
            let is_broken = match outcome {
                Outcome::Kept(_) => false,
                Outcome::Broken(_) => true,
                Outcome::NotChecked(_) => continue,
            };
            state.broken.insert(*check, is_broken);
            state.last.insert(*check, Timestamp::now());
        }
    }

    /// After a round that checked nothing: what the last one found need not be true any more.
    pub(super) fn forget_results(&self) {
        lock(&self.state).broken.clear();
    }

    fn text(&self) -> String {
        let (state, mut out) = (lock(&self.state), Exposition::default());
        out.sample(ROUNDS, &[], state.rounds as f64);
        out.sample(REQUESTS, &[], self.requests.sent() as f64);
        for (check, is_broken) in &state.broken {
            out.flag(BROKEN, &[("check", check.as_str())], *is_broken);
        }
        for (check, at) in &state.last {
            out.sample(LAST_CHECK, &[("check", check.as_str())], at.as_second() as f64);
        }
        out.sample(INTERVAL, &[], self.interval.as_secs_f64());
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
