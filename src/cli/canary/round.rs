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
use crate::registry::GeneId;
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
        "the key must have a limit of {needed} to {MAX_LIMIT} requests a minute (replicas: \
         {replicas}); at {replica}, it has {limit}"
    )]
    UnsuitableLimit { needed: u64, replicas: usize, limit: u64, replica: BaseUrl },
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
        for (replica, page) in replicas.iter().zip(&pages) {
            if page.as_ref().is_some_and(|page| !lists_genes(page)) {
                lock(&self.failures).add(replica, "a search does not list genes with their ids");
            }
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
        report.add(Check::Responds, failures.outcome(|_| format!("replicas: {}", replicas.len())));
        Ok(report)
    }

    /// Sends a request whose result counts for the limit. What is no response of the API, or has
    /// another status than `expected`, is a fault, and is not judged any further, except that a
    /// replica may not know the key.
    async fn get(
        &self,
        replica: &BaseUrl,
        path: &str,
        expected: &[StatusCode],
    ) -> Option<Observation> {
        let result = self.requests.get(replica, path, self.key).await;
        let fault = match &result {
            Ok(response) if expected.contains(&response.status) => response.foreign(),
            Ok(response) => Some(format!("status {}", response.status.as_u16())),
            Err(error) => Some(error_chain(error)),
        };
        let status = result.as_ref().ok().map(|response| response.status);
        let Some(fault) = fault else {
            lock(&self.tally).add(status);
            return result.ok();
        };
        lock(&self.failures).add(replica, fault);
        lock(&self.tally).add(status.filter(|status| !expected.contains(status)));
        result.ok().filter(|response| response.status == StatusCode::UNAUTHORIZED)
    }

    async fn get_from_all(&self, path: &str, expected: &[StatusCode]) -> Responses {
        join_all(self.replicas.iter().map(|replica| self.get(replica, path, expected))).await
    }

    /// Waits until a request of this round opens a window of the key. If the second try does not, a
    /// replica counts by itself, or somebody else uses the key.
    async fn open_window(&self) -> Result<KeyWindow, RoundError> {
        let mut window = self.first_window().await?;
        if !window.is_new {
            let seconds = window.resets_in.as_secs();
            tracing::info!(seconds, "waiting until the minute ends in which the key was used");
            sleep(window.resets_in + Duration::from_secs(1)).await;
            *lock(&self.tally) = Tally::default();
            *lock(&self.failures) = Faults::default();
            window = self.first_window().await?;
        }
        Ok(window)
    }

    /// The window of the key at the first replica that knows a suitable limit of it.
    async fn first_window(&self) -> Result<KeyWindow, RoundError> {
        let replicas = self.replicas.len();
        let needed = (replicas * REQUESTS_PER_REPLICA + 1) as u64;
        let (mut refused, mut unsuitable) = (0, None);
        for replica in self.replicas {
            let Some(response) = self.get(replica, SAMPLE, COUNTED).await else { continue };
            match response.number("x-ratelimit-limit") {
                None => refused += 1,
                Some(limit) if (needed..=MAX_LIMIT).contains(&limit) => {
                    return Ok(KeyWindow::of(replica, &response, limit, *lock(&self.tally)));
                }
                Some(limit) => unsuitable = Some((limit, replica)),
            }
        }
        if refused > 0 && refused == replicas {
            return Err(RoundError::KeyRefused);
        }
        let Some((limit, replica)) = unsuitable else {
            return Err(RoundError::NoneResponds(std::mem::take(&mut *lock(&self.failures)).texts));
        };
        Err(RoundError::UnsuitableLimit { needed, replicas, limit, replica: replica.clone() })
    }

    /// Requests the page and the phenotypes twice, and once more if what was seen may be a fault or a
    /// change.
    async fn passes(&self, genes: &[GeneId]) -> Vec<Pass> {
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

    async fn pass(&self, genes: &[GeneId]) -> Pass {
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
        let missing = wanted.saturating_sub(lock(&self.tally).clear() as usize);
        let requests = stream::iter(counting.iter().copied().cycle().take(missing));
        let send = |replica| async move { self.get(replica, SAMPLE, COUNTED).await.is_some() };
        let all = requests.map(send).buffer_unordered(CONCURRENCY).count();
        // What is not sent in time is missing in the tally.
        let _ = timeout_at(window.began + (WINDOW - MARGIN), all).await;
        let differing = other_limit(&window, self.replicas, pages).or_else(|| shared_count(&left));
        window.outcome(*lock(&self.tally), differing)
    }
}

/// A replica that reports another limit of the key.
fn other_limit(window: &KeyWindow, replicas: &[BaseUrl], pages: &Responses) -> Option<String> {
    let mut limits = replicas
        .iter()
        .zip(pages)
        .filter_map(|(replica, page)| Some((replica, page.as_ref()?.number("x-ratelimit-limit")?)));
    let (replica, limit) = limits.find(|(_, limit)| *limit != window.limit)?;
    Some(format!(
        "{replica} reports a limit of {limit}, and {} one of {}",
        window.replica, window.limit
    ))
}

fn genes_of(page: &Observation) -> Vec<Value> {
    let data = page.json().and_then(|body| body.get("data")?.as_array().cloned());
    data.unwrap_or_default()
}

fn id_of(gene: &Value) -> Option<GeneId> {
    gene.get("id")?.as_str()?.parse().ok()
}

/// Whether a page that is not empty has genes with ids.
fn lists_genes(page: &Observation) -> bool {
    page.status != StatusCode::OK || genes_of(page).iter().all(|gene| id_of(gene).is_some())
}

/// The first genes, up to [`MAX_GENES`]: at least that of each replica. And the domain of one.
fn sample(pages: &Responses) -> (Vec<GeneId>, Option<String>) {
    let found: Vec<Vec<Value>> = pages.iter().flatten().map(genes_of).collect();
    let (mut known, mut chosen) = (BTreeSet::new(), Vec::new());
    for rank in 0..MAX_GENES {
        for gene in found.iter().filter_map(|page| page.get(rank)) {
            chosen.extend(id_of(gene).filter(|id| known.insert(*id)));
        }
    }
    chosen.truncate(MAX_GENES);
    let domain = |gene: &Value| gene.get("domain")?.as_str().map(str::to_owned);
    let domain = found.iter().flatten().filter_map(domain).find(|name| !name.is_empty());
    (chosen, domain)
}
