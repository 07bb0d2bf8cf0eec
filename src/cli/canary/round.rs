//! One round of checks. All its requests are in one window of the key, which counts them for the check
//! of the limit.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Mutex;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::future::join_all;
use futures_util::stream;
use hyper::StatusCode;
use hyper::header::HeaderValue;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;
use tokio::time::sleep;

use super::ages::{Kind, violation};
use super::clock;
use super::limit::{KeyWindow, Tally};
use super::passes::{PAUSE, Pass, deviating, is_unconfirmed};
use super::report::{Check, Outcome, RoundReport};
use super::target::{BaseUrl, Observation, Requests, SAMPLE};
use crate::config::CacheConfig;
use crate::net::HttpError;
use crate::ops::error_chain;
use crate::sync::lock;

/// Responses that are errors.
const ERRORS: [&str; 2] =
    ["/genes?limit=0", "/genes/00000000-0000-4000-8000-000000000000/phenotype"];

/// Genes whose phenotypes are compared.
const MAX_GENES: usize = 3;

/// Requests to each replica at most, without those that exhaust the limit: the page, its insights,
/// the errors, and three passes.
pub(super) const REQUESTS_PER_REPLICA: usize = 4 + 3 * MAX_GENES;

/// Requests under way at once while the limit is exhausted.
const CONCURRENCY: usize = 8;

/// Why a round could not begin.
#[derive(Debug, thiserror::Error)]
pub(super) enum RoundError {
    #[error("the key is refused (status 401)")]
    KeyRefused,
    #[error(
        "the key must have a limit of at least {needed} requests a minute for {replicas} replicas; it \
         has {limit}"
    )]
    LimitTooLow { needed: u32, replicas: usize, limit: u32 },
    #[error("another client uses the key of the canary; give it a key of its own")]
    KeyInUse,
    #[error("no replica responds: {}", .0.join("; "))]
    NoneResponds(Vec<String>),
}

/// What a round works with.
pub(super) struct Round<'a> {
    pub(super) requests: &'a Requests,
    pub(super) replicas: Vec<BaseUrl>,
    pub(super) key: &'a HeaderValue,
    pub(super) cache: &'a CacheConfig,
    pub(super) tally: Mutex<Tally>,
}

impl Round<'_> {
    /// Checks everything but revocation. Takes some seconds, and up to a minute more if the window of
    /// the key is open.
    pub(super) async fn run(&self) -> Result<RoundReport, RoundError> {
        let window = self.open_window().await?;
        let mut report = RoundReport::default();
        let pages = self.get_from_all(SAMPLE).await;
        report.add(Check::Responds, self.responds(&pages));
        let (genes, domain) = sample(&pages);
        let mut ages = Faults::default();
        self.judge(&mut ages, Kind::Search, &pages);
        for path in ERRORS {
            self.judge(&mut ages, Kind::Error, &self.get_from_all(path).await);
        }
        if let Some(domain) = domain {
            let domain = utf8_percent_encode(&domain, NON_ALPHANUMERIC);
            let insights = self.get_from_all(&format!("/arena/insights?domain={domain}")).await;
            self.judge(&mut ages, Kind::Insights, &insights);
        }
        let passes = self.passes(&genes).await;
        for responses in passes.iter().flat_map(transposed) {
            self.judge_observed(&mut ages, Kind::Phenotype, responses);
        }
        report.add(Check::Ages, Outcome::of(ages.texts, format!("{} responses", ages.judged)));
        report.add(Check::ChangeLog, self.change_log(&passes));
        report.add(Check::Clock, self.clocks(&pages));
        report.add(Check::Agreement, self.agreement(&passes, &genes));
        self.exhaust(window).await;
        report.add(Check::Limit, window.outcome(*lock(&self.tally)));
        Ok(report)
    }

    /// Sends a request whose result counts for the limit.
    async fn get(&self, replica: &BaseUrl, path: &str) -> Result<Observation, HttpError> {
        let result = self.requests.get(replica, path, self.key).await;
        lock(&self.tally).add(&result);
        result
    }

    async fn get_from_all(&self, path: &str) -> Vec<Result<Observation, HttpError>> {
        join_all(self.replicas.iter().map(|replica| self.get(replica, path))).await
    }

    /// Waits until a request of this round opens a window of the key.
    async fn open_window(&self) -> Result<KeyWindow, RoundError> {
        for _ in 0..2 {
            let first = self.first_response().await?;
            if first.status == StatusCode::UNAUTHORIZED {
                return Err(RoundError::KeyRefused);
            }
            if let Some(window) = KeyWindow::opened_by(&first) {
                return self.enough(window);
            }
            let left = first.number("x-ratelimit-reset").unwrap_or_default().min(60);
            sleep(Duration::from_secs(left + 1)).await;
            *lock(&self.tally) = Tally::default();
        }
        Err(RoundError::KeyInUse)
    }

    /// The response of the first replica that knows the key, or refuses it.
    async fn first_response(&self) -> Result<Observation, RoundError> {
        let mut faults = Faults::default();
        for replica in &self.replicas {
            match self.get(replica, SAMPLE).await {
                Ok(response) if is_about_key(&response) => return Ok(response),
                Ok(response) => faults.add(replica, format!("status {}", response.status)),
                Err(error) => faults.add(replica, error_chain(&error)),
            }
        }
        Err(RoundError::NoneResponds(faults.texts))
    }

    fn enough(&self, window: KeyWindow) -> Result<KeyWindow, RoundError> {
        let replicas = self.replicas.len();
        let needed = u32::try_from(replicas * REQUESTS_PER_REPLICA + 1).unwrap_or(u32::MAX);
        let limit = window.limit;
        if limit < needed {
            return Err(RoundError::LimitTooLow { needed, replicas, limit });
        }
        Ok(window)
    }

    /// Requests the phenotypes twice, and once more if what was seen may be a fault or a change.
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
            let mut responses = Vec::new();
            for gene in genes {
                let response = self.get(replica, &format!("/genes/{gene}/phenotype")).await;
                responses.push(response.ok());
            }
            responses
        };
        join_all(self.replicas.iter().map(of_replica)).await
    }

    fn responds(&self, pages: &[Result<Observation, HttpError>]) -> Outcome {
        let mut faults = Faults::default();
        for (replica, page) in self.replicas.iter().zip(pages) {
            match page {
                Ok(page) if page.status == StatusCode::OK => {}
                Ok(page) => faults.add(replica, format!("status {}", page.status)),
                Err(error) => faults.add(replica, error_chain(error)),
            }
        }
        Outcome::of(faults.texts, format!("{} replicas", self.replicas.len()))
    }

    fn judge(&self, faults: &mut Faults, kind: Kind, responses: &[Result<Observation, HttpError>]) {
        self.judge_observed(faults, kind, responses.iter().map(|response| response.as_ref().ok()));
    }

    fn judge_observed<'o>(
        &self,
        faults: &mut Faults,
        kind: Kind,
        responses: impl IntoIterator<Item = Option<&'o Observation>>,
    ) {
        for (replica, response) in self.replicas.iter().zip(responses) {
            let Some(response) = response else { continue };
            let kind = if response.status == StatusCode::OK { kind } else { Kind::Error };
            faults.judged += 1;
            if let Some(text) = violation(kind, response, self.cache) {
                faults.add(replica, text);
            }
        }
    }

    fn change_log(&self, passes: &[Pass]) -> Outcome {
        if self.cache.phenotype.fresh_s < 3 * PAUSE.as_secs() {
            return Outcome::NotChecked("phenotypes are not cached for long enough".to_owned());
        }
        if passes.iter().flatten().flatten().all(Option::is_none) {
            return Outcome::NotChecked("there is no gene".to_owned());
        }
        let mut faults = Faults::default();
        for (number, replica) in self.replicas.iter().enumerate() {
            let mut pairs = passes.windows(2);
            if pairs.len() >= 2 && pairs.all(|pair| is_unconfirmed(number, &pair[0], &pair[1])) {
                let text = "cached phenotypes are not confirmed and are read again: polls of the \
                            change log fail or hang, or all genes change";
                faults.add(replica, text);
            }
        }
        Outcome::of(faults.texts, "cached phenotypes stay confirmed")
    }

    fn clocks(&self, pages: &[Result<Observation, HttpError>]) -> Outcome {
        let mut faults = Faults::default();
        for (replica, page) in self.replicas.iter().zip(pages) {
            if let Some(text) = page.as_ref().ok().and_then(clock::fault) {
                faults.add(replica, text);
            }
        }
        Outcome::of(faults.texts, "all clocks are right")
    }

    fn agreement(&self, passes: &[Pass], genes: &[String]) -> Outcome {
        if self.replicas.len() < 2 || genes.is_empty() {
            return Outcome::NotChecked("it needs two replicas and a gene".to_owned());
        }
        let mut faults = Faults::default();
        // Without a third pass, the second one showed no difference that remained.
        if passes.len() > 2 {
            for (replica, gene) in deviating(passes) {
                let text = format!("the gene {} is another one than elsewhere", genes[gene]);
                faults.add(&self.replicas[replica], text);
            }
        }
        Outcome::of(faults.texts, format!("{} genes are the same everywhere", genes.len()))
    }

    /// Sends what is left of the limit, and two requests to each replica more.
    async fn exhaust(&self, window: KeyWindow) {
        let wanted = window.limit as usize + 2 * self.replicas.len();
        let left = wanted.saturating_sub(lock(&self.tally).sent() as usize);
        let requests = stream::iter(self.replicas.iter().cycle().take(left));
        let send = |replica| async move { self.get(replica, SAMPLE).await.is_ok() };
        requests.map(send).buffer_unordered(CONCURRENCY).count().await;
    }
}

/// Whether the key was found, or is refused.
fn is_about_key(response: &Observation) -> bool {
    response.status == StatusCode::UNAUTHORIZED || response.number("x-ratelimit-limit").is_some()
}

/// What is wrong at the replicas.
#[derive(Default)]
struct Faults {
    texts: Vec<String>,
    judged: usize,
}

impl Faults {
    fn add(&mut self, replica: &BaseUrl, text: impl fmt::Display) {
        self.texts.push(format!("{replica}: {text}"));
    }
}

/// The first gene of each replica, up to [`MAX_GENES`], and the domain of one.
fn sample(pages: &[Result<Observation, HttpError>]) -> (Vec<String>, Option<String>) {
    let first = |page: &Observation| page.json()?.get("data")?.get(0).cloned();
    let found: Vec<Value> = pages.iter().flatten().filter_map(first).collect();
    let text = |gene: &Value, name| gene.get(name)?.as_str().map(str::to_owned);
    let genes: BTreeSet<_> = found.iter().filter_map(|gene| text(gene, "id")).collect();
    let domain = found.first().and_then(|gene| text(gene, "domain"));
    (genes.into_iter().take(MAX_GENES).collect(), domain)
}

/// The responses of all replicas to each request in turn.
fn transposed(pass: &Pass) -> impl Iterator<Item = Vec<Option<&Observation>>> {
    let requests = pass.first().map_or(0, Vec::len);
    (0..requests)
        .map(|request| pass.iter().map(|of_replica| of_replica[request].as_ref()).collect())
}
