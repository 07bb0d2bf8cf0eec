//! Connects to one of several hosts that is available and has the requested role.
//!
//! The host that was used last is tried first. If it does not respond soon, the next one is tried
//! concurrently, so that a host that drops all packets costs a fraction of the timeout.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use deadpool_postgres::ClientWrapper;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use thiserror::Error;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::url::{ConnectionTarget, HostRole, SetupError, target};
use crate::config::UpstreamConfig;
use crate::net::tls;

/// The next host is tried after the timeout divided by this. With two hosts, the second one has three
/// quarters of the timeout.
const HEAD_START_DIVISOR: u32 = 4;

/// Why one host cannot be used.
#[derive(Debug, Error)]
pub(crate) enum HostError {
    /// The connection failed.
    #[error(transparent)]
    Connection(#[from] tokio_postgres::Error),
    /// It is not a primary.
    #[error("the server is a standby, and target_session_attrs asks for a primary")]
    Standby,
    /// It is not a standby.
    #[error("the server is a primary, and target_session_attrs asks for a standby")]
    Primary,
    /// It did not respond in time.
    #[error("no response in time")]
    TimedOut,
}

/// Why no host can be used: the error of each host, in the order of the URL.
#[derive(Debug, Error)]
#[error("{}", text(.0))]
pub(crate) struct NoUsableHost(pub(crate) Vec<HostError>);

/// Hosts are numbered, from 1, because readers of the log need not know their names.
fn text(errors: &[HostError]) -> String {
    let one = |(host, error): (usize, &HostError)| {
        let why = crate::ops::error_chain(error);
        if errors.len() == 1 { why } else { format!("host {}: {why}", host + 1) }
    };
    errors.iter().enumerate().map(one).collect::<Vec<_>>().join("; ")
}

/// The hosts of one URL.
pub(super) struct Hosts {
    pub(super) target: ConnectionTarget,
    /// The connector, also for cancel requests.
    pub(super) tls: MakeRustlsConnect,
    timeout: Duration,
    last: AtomicUsize,
}

impl Hosts {
    /// The hosts of the configured URL; connects to none. `timeout` bounds each call of
    /// [`Self::connect`].
    ///
    /// # Errors
    /// The URL is invalid, or the file of certificate authorities cannot be read.
    pub(super) fn new(config: &UpstreamConfig, timeout: Duration) -> Result<Self, SetupError> {
        let target = target(config)?;
        let client = if target.any_name { tls::client_for_any_name } else { tls::client };
        let tls = MakeRustlsConnect::new(client(config.tls_ca_file.as_deref())?);
        Ok(Self { target, tls, timeout, last: AtomicUsize::new(0) })
    }

    /// Connects to one of the hosts.
    ///
    /// # Errors
    /// No host is available in time and has the requested role.
    pub(super) async fn connect(&self) -> Result<ClientWrapper, NoUsableHost> {
        let mut errors: Vec<_> = self.target.hosts.iter().map(|_| HostError::TimedOut).collect();
        // The bound of all attempts; each host has its own as well.
        let won = timeout(self.timeout, self.race(&mut errors)).await.unwrap_or(None);
        let (host, client) = won.ok_or(NoUsableHost(errors))?;
        self.note_used(host);
        Ok(client)
    }

    async fn race(&self, errors: &mut [HostError]) -> Option<(usize, ClientWrapper)> {
        let order = self.order();
        let step =
            self.timeout / HEAD_START_DIVISOR / u32::try_from(order.len().max(2) - 1).unwrap_or(1);
        let mut untried = order.into_iter();
        let mut attempts = FuturesUnordered::new();
        let mut fallback = None;
        let mut next = Instant::now();
        loop {
            if attempts.is_empty() || Instant::now() >= next {
                match untried.next() {
                    Some(host) => attempts.push(async move { (host, self.attempt(host).await) }),
                    None if attempts.is_empty() => return fallback,
                    None => {}
                }
                next = Instant::now() + step;
            }
            tokio::select! {
                biased;
                Some((host, attempt)) = attempts.next() => match attempt {
                    Ok((client, true)) => return Some((host, client)),
                    Ok((client, false)) => fallback = Some((host, client)),
                    Err(error) => {
                        errors[host] = error;
                        next = Instant::now();
                    }
                },
                () = sleep_until(next) => {
                    // Every host had a head start, so the fallback is good enough.
                    if untried.len() == 0 && fallback.is_some() {
                        return fallback;
                    }
                }
            }
        }
    }

    /// Connects to a host with an acceptable role, and tells whether it is the preferred one.
    async fn attempt(&self, host: usize) -> Result<(ClientWrapper, bool), HostError> {
        let (client, driver) = self.target.hosts[host].connect(self.tls.clone()).await?;
        let is_unchecked = driver.parameter("server_encoding") == Some("SQL_ASCII");
        let driver = tokio::spawn(async move {
            if let Err(error) = driver.await {
                tracing::debug!(%error, "the connection ended");
            }
        });
        // The driver ends with the client.
        let client = ClientWrapper::new(client, driver);
        if is_unchecked {
            // Otherwise a text that is not UTF-8 fails the statement, with the rows around it.
            client.batch_execute("SET client_encoding = 'SQL_ASCII'").await?;
        }
        if self.target.role == HostRole::Any {
            return Ok((client, true));
        }
        let is_standby = "SELECT pg_catalog.pg_is_in_recovery()";
        let is_standby: bool = client.query_typed_one(is_standby, &[]).await?.try_get(0)?;
        match (self.target.role, is_standby) {
            (HostRole::Primary, true) => Err(HostError::Standby),
            (HostRole::Standby, false) => Err(HostError::Primary),
            (role, is_standby) => Ok((client, is_standby || role != HostRole::PreferStandby)),
        }
    }

    fn order(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.target.hosts.len()).collect();
        if self.target.shuffled {
            // Without randomness, the order of the URL.
            order.sort_by_cached_key(|_| getrandom::u64().unwrap_or_default());
        } else {
            let last = self.last.load(Ordering::Relaxed);
            order.sort_by_key(|host| (*host != last, *host));
        }
        order
    }

    fn note_used(&self, host: usize) {
        let before = self.last.swap(host, Ordering::Relaxed);
        if before != host && !self.target.shuffled {
            tracing::info!(
                host = host + 1,
                before = before + 1,
                "connected to another host of the registry's database than before"
            );
        }
    }
}
