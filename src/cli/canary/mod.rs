//! `gene-registry canary` shows by requests from outside whether a fleet that runs keeps its promises:
//! limits, ages, changes, clocks, agreement of the replicas, and the time until a revocation applies.

mod ages;
mod clock;
mod findings;
mod limit;
mod metrics;
mod passes;
mod report;
mod revocation;
mod round;
mod target;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use hyper::header::HeaderValue;
use tokio::time::{MissedTickBehavior, interval};

use self::metrics::CanaryMetrics;
use self::report::{Check, Outcome, RoundReport};
pub(super) use self::revocation::is_of_canary;
use self::round::{Round, RoundError};
use self::target::{BaseUrl, Requests};
use super::command::{CommandError, CommandResult, UsageError, block_on};
use super::config_file::ConfigFile;
use super::key_file::read_key;
use super::output::{print, sanitize_lines};
use super::session::ControlSession;
use super::signals::TerminationSignals;
use super::value_parsers::pause;
use crate::config::Config;
use crate::keys::ApiKey;
use crate::limit::WINDOW;
use crate::ops::{error_chain, telemetry};

/// The variable that may hold the key.
const KEY_VARIABLE: &str = "CANARY_API_KEY";

/// A round uses up the limit of a minute.
fn interval_of_rounds(text: &str) -> Result<Duration, String> {
    let given = pause(text).ok().filter(|given| *given >= WINDOW);
    given.ok_or_else(|| "expected a duration of 60s to 24h, such as 5m".to_owned())
}

#[derive(Debug, Args)]
pub(super) struct Canary {
    #[command(flatten)]
    config: ConfigFile,
    /// Base URL of a replica, or of a balancer; may be repeated
    #[arg(long = "url", value_name = "URL", required = true)]
    urls: Vec<BaseUrl>,
    /// Take each address of a host name as a replica of its own (with http:// only)
    #[arg(long)]
    each_address: bool,
    /// File with an API key that nobody else uses; by default CANARY_API_KEY
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// URL of the control listener, to revoke a key there once an hour; log in first
    #[arg(long, value_name = "URL")]
    server: Option<String>,
    /// Check once, print the results, and exit
    #[arg(long, conflicts_with_all = ["every", "metrics"])]
    once: bool,
    /// Check repeatedly, with this time from one start to the next: 60s to 24h
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = interval_of_rounds)]
    every: Duration,
    /// Address on which /metrics, /livez and /readyz are served
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:9465")]
    metrics: SocketAddr,
}

impl Canary {
    pub(super) fn run(self) -> CommandResult {
        let config = self.config.read()?.config;
        let key = self.key()?;
        telemetry::init(&config.log)?;
        block_on(async move {
            let canary = CanaryRun { config, key, requests: Requests::new()?, options: self };
            if canary.options.once { canary.once().await } else { canary.repeatedly().await }
        })
    }

    fn key(&self) -> Result<HeaderValue, CommandError> {
        let key: ApiKey = match &self.key_file {
            Some(path) => read_key(path)?,
            None => {
                let text = std::env::var(KEY_VARIABLE).map_err(|_| {
                    UsageError::new(format!("no API key: give --key-file, or set {KEY_VARIABLE}"))
                })?;
                let key = text.trim().parse();
                key.map_err(|error| UsageError::new(format!("{KEY_VARIABLE}: {error}")))?
            }
        };
        let mut key = HeaderValue::try_from(key.expose())?;
        key.set_sensitive(true);
        Ok(key)
    }
}

/// A canary with all that it needs.
struct CanaryRun {
    options: Canary,
    config: Config,
    key: HeaderValue,
    requests: Requests,
}

impl CanaryRun {
    async fn once(&self) -> CommandResult {
        let report = self.round().await?;
        print(&sanitize_lines(&report.text()))?;
        let is_broken = report.broken().next().is_some();
        Ok(if is_broken { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }

    async fn repeatedly(&self) -> CommandResult {
        let mut signals = TerminationSignals::new()?;
        let has_revocation = self.options.server.is_some();
        let metrics = CanaryMetrics::new(self.requests.clone(), self.options.every, has_revocation);
        let serving = metrics.serve(self.options.metrics).await?;
        tracing::info!(metrics = %serving.address, "the canary has started");
        let rounds = async {
            let mut not_checked = BTreeMap::new();
            let mut starts = interval(self.options.every);
            starts.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                starts.tick().await;
                match self.round().await {
                    Ok(report) => {
                        metrics.record(&report);
                        log(&report, &mut not_checked);
                    }
                    Err(error) => {
                        metrics.forget_results();
                        let error = error_chain(&*error);
                        tracing::warn!(
                            error,
                            "nothing was checked; trying again at the next start"
                        );
                    }
                }
            }
        };
        tokio::select! {
            () = signals.received() => {}
            () = rounds => {}
        }
        serving.shutdown().await;
        Ok(ExitCode::SUCCESS)
    }

    /// A fleet of which nothing responds breaks the first promise; the others are not checked then.
    async fn round(&self) -> Result<RoundReport, CommandError> {
        match self.complete_round().await {
            Err(RoundError::NoneResponds(faults)) => {
                let mut report = RoundReport::default();
                report.add(Check::Responds, Outcome::Broken(faults));
                Ok(report)
            }
            result => Ok(result?),
        }
    }

    async fn complete_round(&self) -> Result<RoundReport, RoundError> {
        let replicas = self.replicas().await;
        let round = Round::new(&self.requests, &replicas, &self.key, &self.config);
        let mut report = round.run().await?;
        let (outcome, took) = self.revocation(&replicas).await;
        report.add(Check::Revocation, outcome);
        report.revocation = took;
        Ok(report)
    }

    /// Each replica once. A name that cannot be resolved stands for one that does not respond.
    async fn replicas(&self) -> Vec<BaseUrl> {
        let mut replicas = Vec::new();
        for url in &self.options.urls {
            let each = if self.options.each_address { url.each_address().await.ok() } else { None };
            for replica in each.unwrap_or_else(|| vec![url.clone()]) {
                if !replicas.contains(&replica) {
                    replicas.push(replica);
                }
            }
        }
        replicas
    }

    async fn revocation(&self, replicas: &[BaseUrl]) -> (Outcome, Option<Duration>) {
        let Some(server) = &self.options.server else {
            return (Outcome::NotChecked("it needs --server, and a login there".to_owned()), None);
        };
        let checked = async {
            let mut session = ControlSession::open(Some(server)).await?;
            revocation::check(&mut session, &self.requests, replicas).await
        };
        checked.await.unwrap_or_else(|error| {
            (Outcome::NotChecked(format!("{server}: {}", error_chain(&*error))), None)
        })
    }
}

/// One line for what is broken, or one for the round; and why a check is not done, when that changes.
/// `known`: the reasons of the rounds before.
fn log(report: &RoundReport, known: &mut BTreeMap<Check, String>) {
    for (check, outcome) in &report.outcomes {
        match outcome {
            Outcome::NotChecked(why) if known.get(check) == Some(why) => {}
            Outcome::NotChecked(why) => {
                known.insert(*check, why.clone());
                tracing::info!(check = check.as_str(), why, "a promise is not checked");
            }
            Outcome::Kept(_) | Outcome::Broken(_) => drop(known.remove(check)),
        }
    }
    let mut is_broken = false;
    for (check, text) in report.broken() {
        is_broken = true;
        tracing::warn!(check = check.as_str(), "a promise is broken: {text}");
    }
    if !is_broken {
        let kept =
            report.outcomes.iter().filter(|(_, one)| matches!(one, Outcome::Kept(_))).count();
        tracing::info!(kept, "all that was checked is as promised");
    }
}
