//! From a configured URL to the hosts that it names, and what is wanted of them.

use std::borrow::Cow;
use std::time::Duration;

use secrecy::{ExposeSecret, SecretString};
use thiserror::Error;
use tokio_postgres::Config;
use tokio_postgres::config::{LoadBalanceHosts, TargetSessionAttrs};

use super::tls::Proof;
use crate::config::{UpstreamConfig, check_escapes};

/// Why no connection could even be tried. Never holds the URL, which holds the password.
#[derive(Debug, Error)]
pub enum SetupError {
    /// No URL is configured.
    #[error("upstream.url: not set (DATABASE_URL sets it too)")]
    NoUrl,
    /// The URL can't be read.
    #[error("upstream.url: not a valid postgres:// URL: {0}")]
    Url(String),
    /// A standby's URL, by its place in the list, can't be read.
    #[error("upstream.read_urls: number {0} is not a valid postgres:// URL: {1}")]
    ReadUrl(usize, String),
    /// The certificate authorities can't be read.
    #[error("upstream.tls_ca_file: {0}")]
    Authorities(String),
    /// TLS can't be set up.
    #[error("upstream: TLS cannot be set up")]
    Tls(#[from] rustls::Error),
    /// The pool can't be set up.
    #[error("upstream.pool_size: the pool cannot be set up")]
    Pool,
}

/// What a host must be to be used (`target_session_attrs`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wanted {
    Any,
    /// Also `read-write`: whether a session may write says nothing here, for the reader's role
    /// is read-only by itself.
    Primary,
    /// Also `read-only`.
    Standby,
    PreferStandby,
}

/// What a URL says.
#[derive(Debug, Clone)]
pub(super) struct Target {
    /// Each host as if it were the only one, in the order of the URL.
    pub(super) hosts: Vec<Config>,
    pub(super) wanted: Wanted,
    /// Whether the hosts are tried in no particular order (`load_balance_hosts=random`).
    pub(super) shuffled: bool,
    pub(super) proof: Proof,
}

/// What is connected to. No startup parameter but the ones every pooler takes.
pub(super) fn target(config: &UpstreamConfig) -> Result<Target, SetupError> {
    let url = config.url.as_ref().ok_or(SetupError::NoUrl)?;
    let mut target = parse(url).map_err(SetupError::Url)?;
    for host in &mut target.hosts {
        host.connect_timeout(config.connect());
        host.tcp_user_timeout(config.tcp_user_timeout());
        // An idle connection whose peer is gone is noticed before somebody needs it.
        host.keepalives(true);
        host.keepalives_idle(Duration::from_secs(10));
        host.keepalives_interval(Duration::from_secs(2));
        host.keepalives_retries(3);
        if host.get_application_name().is_none() {
            host.application_name("gene-registry");
        }
    }
    Ok(target)
}

fn parse(url: &SecretString) -> Result<Target, String> {
    let url = url.expose_secret().trim();
    if !url.starts_with("postgres://") && !url.starts_with("postgresql://") {
        return Err("it must begin with postgres://".to_owned());
    }
    check_escapes(url)?;
    let (url, asked) = Asked::taken_from(url)?;
    let mut config: Config = url.parse().map_err(|error| harmless(&error))?;
    if config.get_user().is_none() {
        // As psql does it. Without a name the server would answer with an error of its own.
        let user = ["PGUSER", "USER"].into_iter().find_map(|name| std::env::var(name).ok());
        config.user(user.unwrap_or_else(|| "postgres".to_owned()));
    }
    let wanted = asked.wanted.unwrap_or(match config.get_target_session_attrs() {
        TargetSessionAttrs::ReadWrite => Wanted::Primary,
        TargetSessionAttrs::ReadOnly => Wanted::Standby,
        _ => Wanted::Any,
    });
    Ok(Target {
        hosts: each_host(&config)?,
        wanted,
        shuffled: config.get_load_balance_hosts() == LoadBalanceHosts::Random,
        proof: asked.proof,
    })
}

/// What libpq knows and the client library does not.
#[derive(Debug, Default, PartialEq, Eq)]
struct Asked {
    wanted: Option<Wanted>,
    proof: Proof,
}

impl Asked {
    /// The URL without what the library would refuse, and what that said.
    fn taken_from(url: &str) -> Result<(String, Self), String> {
        let mut asked = Self::default();
        let Some((before, query)) = url.split_once('?') else { return Ok((url.to_owned(), asked)) };
        let mut left: Vec<Cow<'_, str>> = Vec::new();
        for parameter in query.split('&') {
            match parameter.split_once('=') {
                Some(("target_session_attrs", value)) => asked.wanted = Some(wanted(value)?),
                Some(("sslmode", "verify-full")) => left.push("sslmode=require".into()),
                Some(("sslmode", "verify-ca")) => {
                    asked.proof = Proof::Authority;
                    left.push("sslmode=require".into());
                }
                Some(("sslmode", "disable" | "prefer" | "require")) => left.push(parameter.into()),
                // Several of them are one to the library.
                Some(("host", hosts)) => {
                    left.extend(hosts.split(',').map(|host| format!("host={host}").into()));
                }
                Some(("sslmode", _)) => {
                    return Err("invalid value for option sslmode; it is disable, prefer, \
                                require, verify-ca or verify-full"
                        .to_owned());
                }
                _ => left.push(parameter.into()),
            }
        }
        Ok((format!("{before}?{}", left.join("&")), asked))
    }
}

fn wanted(value: &str) -> Result<Wanted, String> {
    Ok(match value {
        "any" => Wanted::Any,
        "primary" | "read-write" => Wanted::Primary,
        "standby" | "read-only" => Wanted::Standby,
        "prefer-standby" => Wanted::PreferStandby,
        _ => {
            return Err("invalid value for option target_session_attrs; it is any, primary, \
                        standby, prefer-standby, read-write or read-only"
                .to_owned());
        }
    })
}

/// The library tries hosts one after the other, each for as long as it takes; here each is tried
/// by itself.
fn each_host(config: &Config) -> Result<Vec<Config>, String> {
    let (hosts, addresses, ports) =
        (config.get_hosts(), config.get_hostaddrs(), config.get_ports());
    let count = hosts.len().max(addresses.len());
    if count == 0 {
        return Err("it names no host".to_owned());
    }
    if !hosts.is_empty() && !addresses.is_empty() && hosts.len() != addresses.len() {
        return Err("it has another number of hosts than of host addresses".to_owned());
    }
    if ports.len() > 1 && ports.len() != count {
        return Err("it has another number of ports than of hosts".to_owned());
    }
    let one = |at: usize| {
        let mut one = without_hosts(config);
        if let Some(host) = hosts.get(at) {
            match host {
                tokio_postgres::config::Host::Tcp(name) => one.host(name),
                tokio_postgres::config::Host::Unix(folder) => one.host_path(folder),
            };
        }
        if let Some(address) = addresses.get(at) {
            one.hostaddr(*address);
        }
        if let Some(port) = ports.get(at).or(ports.first()) {
            one.port(*port);
        }
        one
    };
    Ok((0..count).map(one).collect())
}

/// Everything else of a configuration that [`target`] does not set.
fn without_hosts(config: &Config) -> Config {
    let mut copy = Config::new();
    copy.ssl_mode(config.get_ssl_mode());
    copy.ssl_negotiation(config.get_ssl_negotiation());
    copy.channel_binding(config.get_channel_binding());
    config.get_user().map(|user| copy.user(user));
    config.get_password().map(|password| copy.password(password));
    config.get_dbname().map(|name| copy.dbname(name));
    config.get_options().map(|options| copy.options(options));
    config.get_application_name().map(|name| copy.application_name(name));
    copy
}

/// What the parser says, unless it quotes from the URL.
fn harmless(error: &tokio_postgres::Error) -> String {
    let reason = std::error::Error::source(error).map(ToString::to_string).unwrap_or_default();
    for known in ["unknown option", "invalid value for option"] {
        if let Some(rest) = reason.strip_prefix(known) {
            // Only names of options are quoted, and only those that look like one.
            let name = rest.trim().trim_matches(['`', '\'', '"']);
            if name.chars().all(|c| c.is_ascii_lowercase() || c == '_') && name.len() < 32 {
                return format!("{known} {name}");
            }
            return known.to_owned();
        }
    }
    "it is malformed (special characters in a password are percent-encoded)".to_owned()
}

#[cfg(test)]
#[path = "url_tests.rs"]
mod tests;
