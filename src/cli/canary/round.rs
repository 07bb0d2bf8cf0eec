//! One round of requests. All of them are in one window of the key, which counts them for the check of
//! the limit.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::future::join_all;
use futures_util::stream;
use hyper::StatusCode;
use hyper::header::HeaderValue;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;
use tokio::time::{sleep, timeout_at};

use super::ages::{AgeBounds, Kind};
use super::findings::{Faults, agreement, change_log, clocks, judge};
use super::limit::{KeyWindow, MAX_LIMIT, Tally, shared_count};
use super::passes::{PAUSE, Pass, Responses, deviating, is_unconfirmed};
use super::report::{Check, Outcome, RoundReport};
use super::target::{BaseUrl, Observation, Requests, SAMPLE};
use crate::config::Config;
use crate::limit::WINDOW;
use crate::ops::error_chain;
use crate::sync::lock;

/// Requests whose responses are errors, with their status.
const ERRORS: [(&str, StatusCode); 2] = [
    ("/genes?limit=0", StatusCode::BAD_REQUEST),
    ("/genes/00000000-0000-4000-8000-000000000000/phenotype", StatusCode::NOT_FOUND),
];

const MAYBE_FOUND: &[StatusCode] = &[StatusCode::OK, StatusCode::NOT_FOUND];
const COUNTED: &[StatusCode] = &[StatusCode::OK, StatusCode::TOO_MANY_REQUESTS];

/// Genes whose phenotypes are compared.
const MAX_GENES: usize = 3;

/// Requests to each replica in turn, which show whether all use the same count.
const IN_TURN: usize = 2;

/// Requests to each replica at most, without those that exhaust the limit: the page, its insights,
/// the errors, three passes, and those in turn.
pub(super) const REQUESTS_PER_REPLICA: usize = 4 + 3 * (1 + MAX_GENES) + IN_TURN;

/// Requests under way at once while the limit is exhausted.
const CONCURRENCY: usize = 8;

/// How long before the end of the window the last requests are sent.
const MARGIN: Duration = Duration::from_secs(10);

/// Why a round could not begin.
#[derive(Debug, thiserror::Error)]
pub(super) enum RoundError {
    #[error("the key is refused (status 401)")]
    KeyRefused,
    #[error(
        "the key must have a limit of {needed} to {MAX_LIMIT} requests a minute for {replicas} \
         replicas; it has {limit}"
    )]
    UnsuitableLimit { needed: u64, replicas: usize, limit: u64 },
    #[error("no replica responds: {}", .0.join("; "))]
    NoneResponds(Vec<String>),
}

/// What a round works with, and what it has seen so far.
pub(super) struct Round<'a> {
    requests: &'a Requests,
    replicas: &'a [BaseUrl],
    key: &'a HeaderValue,
    config: &'a Config,
    tally: Mutex<Tally>,
    failures: Mutex<Faults>,
}

impl<'a> Round<'a> {
    pub(super) fn new(
        requests: &'a Requests,
        replicas: &'a [BaseUrl],
        key: &'a HeaderValue,
        config: &'a Config,
    ) -> Self {
        let (tally, failures) = (Mutex::default(), Mutex::default());
        Self { requests, replicas, key, config, tally, failures }
    }

    /// Checks everything but revocation. Takes some seconds, and up to a minute more if the window of
    /// the key is open.
    pub(super) async fn run(&self) -> Result<RoundReport, RoundError> {
        let window = self.open_window().await?;
        let (replicas, mut ages) = (self.replicas, Faults::default());
        let bounds = AgeBounds::of(self.config);
        let pages = self.get_from_all(SAMPLE, &[StatusCode::OK]).await;
        judge(&mut ages, replicas, (Kind::Search, &bounds), pages.iter().map(Option::as_ref));
        for (path, status) in ERRORS {
            let errors = self.get_from_all(path, &[status]).await;
            judge(&mut ages, replicas, (Kind::Error, &bounds), errors.iter().map(Option::as_ref));
        }
        let (genes, domain) = sample(&pages);
        if let Some(domain) = domain {
            let domain = utf8_percent_encode(&domain, NON_ALPHANUMERIC);
            let path = format!("/arena/insights?domain={domain}");
            let found = self.get_from_all(&path, MAYBE_FOUND).await;
            judge(&mut ages, replicas, (Kind::Insights, &bounds), found.iter().map(Option::as_ref));
        }
        let passes = self.passes(&genes).await;
        for pass in &passes {
            for request in 0..=genes.len() {
                let kind = if request == 0 { Kind::Search } else { Kind::Phenotype };
                let responses = pass.iter().map(|of_replica| of_replica[request].as_ref());
                judge(&mut ages, replicas, (kind, &bounds), responses);
            }
        }
        let mut report = RoundReport::default();
        report.add(Check::ChangeLog, change_log(replicas, &passes, &self.config.cache));
        report.add(Check::Clock, clocks(replicas, &pages));
        report.add(Check::Agreement, agreement(replicas, &passes, &genes));
        let limit = self.limit(window, &pages).await;
        report.add(Check::Limit, limit);
        report.add(Check::Ages, ages.outcome(|judged| format!("{judged} responses")));
        let failures = std::mem::take(&mut *lock(&self.failures));
        report.add(Check::Responds, failures.outcome(|_| format!("{} replicas", replicas.len())));
        Ok(report)
    }

    /// Sends a request whose result counts for the limit. Another status than `expected` is a fault.
    async fn get(
        &self,
        replica: &BaseUrl,
        path: &str,
        expected: &[StatusCode],
    ) -> Option<Observation> {
        let result = self.requests.get(replica, path, self.key).await;
        lock(&self.tally).add(&result);
        let fault = match &result {
            Ok(response) if expected.contains(&response.status) => None,
            Ok(response) => Some(format!("status {}", response.status)),
            Err(error) => Some(error_chain(error)),
        };
        if let Some(fault) = fault {
            lock(&self.failures).add(replica, fault);
        }
        result.ok()
    }

    async fn get_from_all(&self, path: &str, expected: &[StatusCode]) -> Responses {
        join_all(self.replicas.iter().map(|replica| self.get(replica, path, expected))).await
    }

    /// Waits until a request of this round opens a window of the key. If the second try does not, a
    /// replica counts by itself, or somebody else uses the key.
    async fn open_window(&self) -> Result<KeyWindow, RoundError> {
        let mut window = self.window_of(&self.first_response().await?)?;
        if !window.is_new {
            sleep(window.resets_in + Duration::from_secs(1)).await;
            *lock(&self.tally) = Tally::default();
            *lock(&self.failures) = Faults::default();
            window = self.window_of(&self.first_response().await?)?;
        }
        Ok(window)
    }

    /// The response of the first replica that knows the key.
    async fn first_response(&self) -> Result<Observation, RoundError> {
        let mut refused = 0;
        for replica in self.replicas {
            let Some(response) = self.get(replica, SAMPLE, COUNTED).await else { continue };
            if response.number("x-ratelimit-limit").is_some() {
                return Ok(response);
            }
            refused += usize::from(response.status == StatusCode::UNAUTHORIZED);
        }
        if refused > 0 && refused == self.replicas.len() {
            return Err(RoundError::KeyRefused);
        }
        Err(RoundError::NoneResponds(std::mem::take(&mut *lock(&self.failures)).texts))
    }

    fn window_of(&self, response: &Observation) -> Result<KeyWindow, RoundError> {
        let replicas = self.replicas.len();
        let needed = (replicas * REQUESTS_PER_REPLICA + 1) as u64;
        let limit = response.number("x-ratelimit-limit").unwrap_or_default();
        if !(needed..=MAX_LIMIT).contains(&limit) {
            return Err(RoundError::UnsuitableLimit { needed, replicas, limit });
        }
        Ok(KeyWindow::of(response, limit))
    }

    /// Requests the page and the phenotypes twice, and once more if what was seen may be a fault or a
    /// change.
    async fn passes(&self, genes: &[String]) -> Vec<Pass> {
        let mut passes = vec![self.pass(genes).await];
        for _ in 0..2 {
            sleep(PAUSE).await;
            passes.push(self.pass(genes).await);
            let [.., first, second] = &passes[..] else { break };
            let is_suspicious = !deviating(&passes).is_empty()
                || (0..self.replicas.len()).any(|replica| is_unconfirmed(replica, first, second));
            if !is_suspicious {
                break;
            }
        }
        passes
    }

    async fn pass(&self, genes: &[String]) -> Pass {
        let of_replica = |replica| async move {
            let mut responses = vec![self.get(replica, SAMPLE, &[StatusCode::OK]).await];
            for gene in genes {
                let path = format!("/genes/{gene}/phenotype");
                responses.push(self.get(replica, &path, MAYBE_FOUND).await);
            }
            responses
        };
        join_all(self.replicas.iter().map(of_replica)).await
    }

    /// Sends requests to the replicas in turn, one after the other, and then what is left of the limit
    /// and two to each replica more. Replicas that have not responded are left out.
    async fn limit(&self, window: KeyWindow, pages: &Responses) -> Outcome {
        let is_counting = |page: &Option<Observation>| {
            page.as_ref().is_some_and(|page| COUNTED.contains(&page.status))
        };
        let counting = self.replicas.iter().zip(pages).filter(|(_, page)| is_counting(page));
        let counting: Vec<_> = counting.map(|(replica, _)| replica).collect();
        let mut left = Vec::new();
        for &replica in counting.iter().cycle().take(IN_TURN * counting.len()) {
            if let Some(response) = self.get(replica, SAMPLE, COUNTED).await
                && let Some(remaining) = response.number("x-ratelimit-remaining")
            {
                left.push((replica, remaining));
            }
        }
        let wanted = window.limit as usize + 2 * counting.len();
        let missing = wanted.saturating_sub(lock(&self.tally).sent() as usize);
        let requests = stream::iter(counting.iter().copied().cycle().take(missing));
        let send = |replica| async move { self.get(replica, SAMPLE, COUNTED).await.is_some() };
        let all = requests.map(send).buffer_unordered(CONCURRENCY).count();
        // What is not sent in time is missing in the tally.
        let _ = timeout_at(window.began + (WINDOW - MARGIN), all).await;
        window.outcome(*lock(&self.tally), shared_count(&left))
    }
}

/// The first genes, up to [`MAX_GENES`]: at least that of each replica. And the domain of one.
fn sample(pages: &Responses) -> (Vec<String>, Option<String>) {
    let genes = |page: &Observation| page.json()?.get("data")?.as_array().cloned();
    let found: Vec<Vec<Value>> = pages.iter().flatten().filter_map(genes).collect();
    let text = |gene: &Value, name| gene.get(name)?.as_str().map(str::to_owned);
    let (mut known, mut chosen) = (BTreeSet::new(), Vec::new());
    for rank in 0..MAX_GENES {
        for gene in found.iter().filter_map(|page| page.get(rank)) {
            chosen.extend(text(gene, "id").filter(|id| known.insert(id.clone())));
        }
    }
    chosen.truncate(MAX_GENES);
    let domain = found.iter().flatten().find_map(|gene| text(gene, "domain"));
    (chosen, domain)
}
