//! Reads the `[redis]` configuration into the servers to connect to, with their logins and TLS
//! settings.

use std::sync::Arc;

use redis::{ConnectionAddr, ConnectionInfo, IntoConnectionInfo, RedisConnectionInfo};
use rustls::ClientConfig;
use secrecy::{ExposeSecret, SecretString};
use thiserror::Error;

use crate::config::{RedisConfig, Topology, check_percent_escapes};
use crate::net::tls;

const URL_FORM: &str = "must be like redis://user:password@host:6379/0, rediss:// for TLS or \
    redis+unix:///path, with special characters percent-encoded";

/// The configuration can't be used. The message contains no configured value, since that may be a
/// password.
#[derive(Debug, Error)]
#[error("{key}: {what}")]
pub struct ServersError {
    /// The configuration key that is wrong.
    pub key: &'static str,
    what: String,
}

/// The servers of one topology.
#[derive(Debug, Clone)]
pub enum Servers {
    /// One server, or a host name that resolves to the primary.
    Single(Server),
    /// The primary that sentinels name.
    Sentinel(Sentinels),
    /// Some nodes of a cluster, which know the others.
    Cluster {
        /// The first configured node.
        node: Server,
        /// The other configured nodes.
        others: Vec<Server>,
    },
}

/// A server's address, login and TLS settings.
#[derive(Debug, Clone)]
pub struct Server {
    pub(super) address: ConnectionAddr,
    pub(super) login: RedisConnectionInfo,
    pub(super) tls: Option<Arc<ClientConfig>>,
}

/// Sentinels, and the service whose primary they name.
#[derive(Debug, Clone)]
pub struct Sentinels {
    pub(super) nodes: Vec<Server>,
    pub(super) service: Arc<str>,
    pub(super) login: RedisConnectionInfo,
}

impl Server {
    /// The same server at another address.
    pub(super) fn moved(&self, host: &str, port: u16) -> Self {
        Self { address: ConnectionAddr::Tcp(host.to_owned(), port), ..self.clone() }
    }
}

impl Servers {
    /// The servers that `config` names; `None` if it names no Redis.
    ///
    /// # Errors
    /// [`ServersError`] names the key.
    pub fn read(config: &RedisConfig) -> Result<Option<Self>, ServersError> {
        if !config.is_used() {
            return Ok(None);
        }
        let (key, urls): (_, Vec<_>) = match config.topology {
            Topology::Single => ("redis.url", config.url.iter().collect()),
            Topology::Sentinel | Topology::Cluster => ("redis.urls", config.urls.iter().collect()),
        };
        let error = |what| ServersError { key, what };
        let parsed = urls.iter().map(|url| ParsedUrl::read(url.expose_secret()));
        let parsed = parsed.collect::<Result<Vec<_>, _>>().map_err(error)?;
        check_consistency(config.topology, &parsed).map_err(error)?;
        let tls = tls_settings(config, &parsed)?;
        let servers = parsed.iter().map(|one| one.server(tls.as_ref()));
        let servers = servers.collect::<Result<Vec<_>, _>>().map_err(error)?;
        let log_in = |login| login_as(login, config.username.as_deref(), config.password.as_ref());
        if config.topology == Topology::Sentinel {
            return Ok(Some(Self::Sentinel(sentinels(config, servers, log_in))));
        }
        let with_login = |one: Server| Server { login: log_in(one.login), ..one };
        let mut servers = servers.into_iter().map(with_login);
        Ok(servers.next().map(|node| match config.topology {
            Topology::Cluster => Self::Cluster { node, others: servers.collect() },
            Topology::Single | Topology::Sentinel => Self::Single(node),
        }))
    }
}

/// User and password in a sentinel's URL are for the sentinel; the database is the primary's, since
/// sentinels have none.
fn sentinels(
    config: &RedisConfig,
    servers: Vec<Server>,
    log_in: impl Fn(RedisConnectionInfo) -> RedisConnectionInfo,
) -> Sentinels {
    let sentinel = &config.sentinel;
    let database = servers.first().map_or(0, |one| one.login.db());
    let nodes = servers.into_iter().map(|one| {
        let (user, password) = (sentinel.username.as_deref(), sentinel.password.as_ref());
        Server { login: login_as(one.login.set_db(0), user, password), ..one }
    });
    Sentinels {
        nodes: nodes.collect(),
        service: sentinel.service.clone().unwrap_or_default().into(),
        login: log_in(RedisConnectionInfo::default().set_db(database)),
    }
}

/// `login` with the configured user and password, as far as they are given.
fn login_as(
    mut login: RedisConnectionInfo,
    user: Option<&str>,
    password: Option<&SecretString>,
) -> RedisConnectionInfo {
    if let Some(password) = password.map(ExposeSecret::expose_secret).filter(|it| !it.is_empty()) {
        login = login.set_password(password);
    }
    match user.filter(|user| !user.is_empty()) {
        Some(user) => login.set_username(user),
        None => login,
    }
}

/// A server's URL.
struct ParsedUrl {
    info: ConnectionInfo,
    tls: bool,
}

impl ParsedUrl {
    fn read(url: &str) -> Result<Self, String> {
        // TLS is set up in `dial.rs`, with our settings, and not by the library.
        let (tls, url) = match url.strip_prefix("rediss://") {
            Some(rest) => (true, format!("redis://{rest}")),
            None => (false, url.to_owned()),
        };
        check_percent_escapes(&url)?;
        match url.as_str().into_connection_info() {
            Ok(info) => Ok(Self { info, tls }),
            Err(_) => Err(format!("not a usable URL: {URL_FORM}")),
        }
    }

    /// The server of this URL. `tls` is used for `rediss://`; without it, the system's authorities
    /// are trusted.
    fn server(&self, tls: Option<&Arc<ClientConfig>>) -> Result<Server, String> {
        let system =
            || tls::client(None).map(Arc::new).map_err(|error| format!("rediss://: {error}"));
        let tls = self.tls.then(|| tls.cloned().map_or_else(system, Ok)).transpose()?;
        let login = self.info.redis_settings().clone();
        Ok(Server { address: self.info.addr().clone(), login, tls })
    }

    fn database(&self) -> i64 {
        self.info.redis_settings().db()
    }
}

/// The TLS settings with the authorities of `redis.tls_ca_file`, if it is configured.
fn tls_settings(
    config: &RedisConfig,
    parsed: &[ParsedUrl],
) -> Result<Option<Arc<ClientConfig>>, ServersError> {
    let Some(file) = config.tls_ca_file.as_deref() else { return Ok(None) };
    let error = |what| ServersError { key: "redis.tls_ca_file", what };
    if !parsed.iter().any(|one| one.tls) {
        return Err(error("is only for URLs that begin with rediss://".to_owned()));
    }
    let client = tls::client(Some(file)).map_err(|cause| error(cause.to_string()))?;
    Ok(Some(Arc::new(client)))
}

fn check_consistency(topology: Topology, parsed: &[ParsedUrl]) -> Result<(), String> {
    let all_equal =
        |of: fn(&ParsedUrl) -> i64| parsed.windows(2).all(|two| of(&two[0]) == of(&two[1]));
    if !all_equal(|one| one.tls.into()) {
        return Err("must all begin with redis:// or all with rediss://".to_owned());
    }
    let unix = |one: &ParsedUrl| matches!(one.info.addr(), ConnectionAddr::Unix(_));
    if topology != Topology::Single && parsed.iter().any(unix) {
        return Err(format!("must be hosts, not sockets, for redis.topology = \"{topology}\""));
    }
    if topology == Topology::Cluster && parsed.iter().any(|one| one.database() != 0) {
        return Err("must name no database but 0: a cluster has no other".to_owned());
    }
    if !all_equal(ParsedUrl::database) {
        return Err("must all name the same database, the primary's".to_owned());
    }
    Ok(())
}
