//! One connection to whichever of several hosts is there and is what is wanted.
//!
//! The host that was used last is tried first. Where it does not answer soon, the next one is
//! tried beside it, so that one that swallows everything costs a moment and not the whole time.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use thiserror::Error;
use tokio::time::{Instant, sleep_until, timeout_at};
use tokio_postgres::{Client, Config, SimpleQueryMessage};
use tokio_postgres_rustls::MakeRustlsConnect;
use tokio_util::task::AbortOnDropHandle;

use super::tls;
use super::url::{SetupError, Target, Wanted, target};
use crate::config::UpstreamConfig;

/// Of the time to connect, how much passes before the next host is tried too, as a divisor. With
/// two hosts, the second one has three quarters of it.
const PATIENCE: u32 = 4;

/// Why one host was not used.
#[derive(Debug, Error)]
pub(crate) enum Refusal {
    /// It could not be connected to.
    #[error(transparent)]
    Connection(#[from] tokio_postgres::Error),
    /// It is no primary.
    #[error("the server is a standby, and target_session_attrs asks for a primary")]
    Standby,
    /// It is no standby.
    #[error("the server is a primary, and target_session_attrs asks for a standby")]
    Primary,
    /// It did not answer in time.
    #[error("no answer in time")]
    Silent,
}

/// Why no host was used.
#[derive(Debug, Error)]
#[error("{}", text(.0))]
pub(crate) struct NoHost(Vec<(usize, Refusal)>);

/// By their place in the URL: names need not be known to whoever reads the log.
fn text(refusals: &[(usize, Refusal)]) -> String {
    let one = |(host, refusal): &(usize, Refusal)| {
        let why = crate::ops::error_chain(refusal);
        if refusals.len() == 1 { why } else { format!("host {}: {why}", host + 1) }
    };
    refusals.iter().map(one).collect::<Vec<_>>().join("; ")
}

impl NoHost {
    /// What was wrong with each.
    pub(super) fn refusals(&self) -> impl Iterator<Item = &Refusal> {
        self.0.iter().map(|(_, refusal)| refusal)
    }
}

/// A connection, driven by a task that ends with it.
pub(super) type Session = (Client, AbortOnDropHandle<()>);

/// See the module.
pub(super) struct Hosts {
    target: Target,
    tls: MakeRustlsConnect,
    patience: Duration,
    last: AtomicUsize,
}

/// What one host turned out to be.
enum Found {
    Wanted(Session),
    /// To be used if there is nothing better.
    SecondBest(Session),
    No(Refusal),
}

impl Hosts {
    /// The hosts of the configured URL; connects to none. All of a connection takes `patience` at
    /// most.
    ///
    /// # Errors
    /// The URL or the certificate authorities can't be read.
    pub(super) fn new(config: &UpstreamConfig, patience: Duration) -> Result<Self, SetupError> {
        let target = target(config)?;
        let tls = tls::connector(config.tls_ca_file.as_deref(), target.proof)?;
        Ok(Self { target, tls, patience, last: AtomicUsize::new(0) })
    }

    /// For cancellations.
    pub(super) const fn tls(&self) -> &MakeRustlsConnect {
        &self.tls
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.target.hosts.len()
    }

    /// Whether only a primary is wanted.
    pub(super) fn wants_primary(&self) -> bool {
        self.target.wanted == Wanted::Primary
    }

    /// A connection to one of the hosts.
    ///
    /// # Errors
    /// None of them is there, or is what is wanted.
    pub(super) async fn connect(&self) -> Result<Session, NoHost> {
        let end = Instant::now() + self.patience;
        let order = self.order();
        let mut refusals = Vec::new();
        let race = self.race(&order, &mut refusals);
        // The bound of all, on top of each host's own.
        let won = timeout_at(end, race).await.unwrap_or(None);
        if let Some((host, session)) = won {
            self.used(host);
            return Ok(session);
        }
        let missing = order.iter().filter(|at| refusals.iter().all(|(host, _)| host != *at));
        let silent: Vec<_> = missing.map(|host| (*host, Refusal::Silent)).collect();
        refusals.extend(silent);
        refusals.sort_by_key(|(host, _)| *host);
        Err(NoHost(refusals))
    }

    async fn race(
        &self,
        order: &[usize],
        refusals: &mut Vec<(usize, Refusal)>,
    ) -> Option<(usize, Session)> {
        let step = self.patience / PATIENCE / u32::try_from(order.len().max(2) - 1).unwrap_or(1);
        let mut left = order.iter().copied();
        let mut under_way = FuturesUnordered::new();
        let mut second_best = None;
        let mut next = Instant::now();
        loop {
            if under_way.is_empty() || Instant::now() >= next {
                match left.next() {
                    Some(host) => under_way.push(self.attempt(host)),
                    None if under_way.is_empty() => return second_best,
                    None => {}
                }
                next = Instant::now() + step;
            }
            tokio::select! {
                biased;
                Some((host, found)) = under_way.next() => match found {
                    Found::Wanted(session) => return Some((host, session)),
                    Found::SecondBest(session) => second_best = Some((host, session)),
                    Found::No(refusal) => {
                        refusals.push((host, refusal));
                        next = Instant::now();
                    }
                },
                () = sleep_until(next) => {
                    // Everybody had their chance, and something will do.
                    if left.len() == 0 && second_best.is_some() {
                        return second_best;
                    }
                }
            }
        }
    }

    async fn attempt(&self, host: usize) -> (usize, Found) {
        let found = match self.target.hosts.get(host) {
            Some(config) => self.look_at(config).await.unwrap_or_else(Found::No),
            None => Found::No(Refusal::Silent),
        };
        (host, found)
    }

    async fn look_at(&self, config: &Config) -> Result<Found, Refusal> {
        let (client, driver) = config.connect(self.tls.clone()).await?;
        let driver = AbortOnDropHandle::new(tokio::spawn(async move {
            if let Err(error) = driver.await {
                tracing::debug!(%error, "the connection ended");
            }
        }));
        if self.target.wanted == Wanted::Any {
            return Ok(Found::Wanted((client, driver)));
        }
        let is_standby = is_standby(&client).await?;
        Ok(match (self.target.wanted, is_standby) {
            (Wanted::Primary, true) => Found::No(Refusal::Standby),
            (Wanted::Standby, false) => Found::No(Refusal::Primary),
            (Wanted::PreferStandby, false) => Found::SecondBest((client, driver)),
            _ => Found::Wanted((client, driver)),
        })
    }

    fn order(&self) -> Vec<usize> {
        let count = self.target.hosts.len();
        let mut order: Vec<usize> = (0..count).collect();
        if self.target.shuffled {
            for at in (1..count).rev() {
                // Without randomness, the order of the URL.
                let other =
                    getrandom::u64().map_or(at, |random| (random % (at as u64 + 1)) as usize);
                order.swap(at, other);
            }
        } else {
            let last = self.last.load(Ordering::Relaxed);
            order.sort_by_key(|host| (*host != last, *host));
        }
        order
    }

    fn used(&self, host: usize) {
        let before = self.last.swap(host, Ordering::Relaxed);
        if before != host && !self.target.shuffled {
            tracing::info!(
                host = host + 1,
                before = before + 1,
                "another of the registry's database hosts is used"
            );
        }
    }
}

async fn is_standby(client: &Client) -> Result<bool, tokio_postgres::Error> {
    let found = client.simple_query("SELECT pg_catalog.pg_is_in_recovery()").await?;
    Ok(found.iter().any(|message| match message {
        SimpleQueryMessage::Row(row) => row.get(0) == Some("t"),
        _ => false,
    }))
}
