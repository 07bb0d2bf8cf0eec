//! Parses a configured URL into its hosts and the options of libpq that the client library lacks.
//!
//! `sslmode` decides whether TLS is disabled, preferred (the default) or required. The certificate of
//! a TLS connection is always verified, as libpq does for `verify-full`; only `verify-ca` ignores the
//! host name.

use std::borrow::Cow;
use std::time::Duration;

use secrecy::{ExposeSecret, SecretString};
use thiserror::Error;
use tokio_postgres::Config;
use tokio_postgres::config::{Host, LoadBalanceHosts};

use crate::config::{UpstreamConfig, check_percent_escapes};
use crate::net::AuthoritiesError;

/// Why the configuration cannot be used to connect. Never contains the URL, which contains the
/// password.
#[derive(Debug, Error)]
pub enum SetupError {
    /// No URL is configured.
    #[error("upstream.url: must be set; also by upstream.url_file or DATABASE_URL")]
    NoUrl,
    /// The URL is invalid.
    #[error("upstream.url: not a valid postgres:// URL: {0}")]
    InvalidUrl(String),
    /// The URL of a standby, by its number in the list, from 1, is invalid.
    #[error("upstream.read_urls: entry {0} is not a valid postgres:// URL: {1}")]
    InvalidStandbyUrl(usize, String),
    /// The file of certificate authorities cannot be read, or TLS cannot be set up.
    #[error("upstream.tls_ca_file: {0}")]
    Authorities(#[from] AuthoritiesError),
    /// The pool cannot be set up.
    #[error("upstream.pool_size: the pool cannot be set up")]
    Pool,
}

const WRONG_SSLMODE: &str = "invalid value for option sslmode; use disable, prefer, require, verify-ca or \
                             verify-full";
const WRONG_ROLE: &str = "invalid value for option target_session_attrs; use any, primary, standby, \
                          prefer-standby, read-write or read-only";

/// The role that a host must have (`target_session_attrs`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum HostRole {
    #[default]
    Any,
    /// Also `read-write`: whether a session may write says nothing, because the reader's role is
    /// read-only.
    Primary,
    /// Also `read-only`.
    Standby,
    PreferStandby,
}

/// The parsed URL.
#[derive(Debug, Default)]
pub(super) struct ConnectionTarget {
    /// One configuration for each host, in the order of the URL.
    pub(super) hosts: Vec<Config>,
    pub(super) role: HostRole,
    /// Whether the hosts are tried in random order (`load_balance_hosts=random`).
    pub(super) shuffled: bool,
    /// Whether a certificate for any host name is accepted (`sslmode=verify-ca`).
    pub(super) any_name: bool,
}

/// The target of the configured URL. It uses only startup parameters that every pooler supports.
pub(super) fn target(config: &UpstreamConfig) -> Result<ConnectionTarget, SetupError> {
    let url = config.url.as_ref().ok_or(SetupError::NoUrl)?;
    let mut target = parse(url).map_err(SetupError::InvalidUrl)?;
    for host in &mut target.hosts {
        host.connect_timeout(Duration::from_millis(config.connect_ms));
        host.tcp_user_timeout(Duration::from_millis(config.tcp_user_timeout_ms));
        // Detects dead idle connections before they are needed.
        host.keepalives_idle(Duration::from_secs(10));
        host.keepalives_interval(Duration::from_secs(2));
        host.keepalives_retries(3);
        if host.get_application_name().is_none() {
            host.application_name("gene-registry");
        }
    }
    Ok(target)
}

fn parse(url: &SecretString) -> Result<ConnectionTarget, String> {
    let url = url.expose_secret().trim();
    if !url.starts_with("postgres://") && !url.starts_with("postgresql://") {
        return Err("it must begin with postgres://".to_owned());
    }
    check_percent_escapes(url)?;
    check_at_signs(url)?;
    let mut target = ConnectionTarget::default();
    let url = target.take_options(url)?;
    let mut config: Config = url.parse().map_err(|error| without_secrets(&error, &url))?;
    if config.get_user().is_none() {
        // As psql does. Without a name, the server would report an error that is hard to understand.
        let user = ["PGUSER", "USER"].into_iter().find_map(|name| std::env::var(name).ok());
        config.user(user.unwrap_or_else(|| "postgres".to_owned()));
    }
    target.hosts = split_hosts(&config)?;
    target.shuffled = config.get_load_balance_hosts() == LoadBalanceHosts::Random;
    Ok(target)
}

/// Refuses an `@` that is not percent-encoded. The library takes all before the first one for user and
/// password, and would look up the rest of a password as the name of a host.
fn check_at_signs(url: &str) -> Result<(), &'static str> {
    let Some((login, rest)) = url.split_once('@') else { return Ok(()) };
    if rest.split('?').next().is_some_and(|host_and_name| host_and_name.contains('@')) {
        return Err("an @ in a password is written as %40");
    }
    match login.split_once('?') {
        Some((_, options)) if options.contains('=') => {
            Err("an @ after the ? is written as %40, and a ? in a password as %3F")
        }
        _ => Ok(()),
    }
}

impl ConnectionTarget {
    /// Applies the options of libpq that the client library would reject, and returns the URL
    /// without them.
    fn take_options(&mut self, url: &str) -> Result<String, String> {
        let Some((before, query)) = url.split_once('?') else { return Ok(url.to_owned()) };
        let mut kept: Vec<Cow<'_, str>> = Vec::new();
        for parameter in query.split('&') {
            match parameter.split_once('=') {
                Some(("target_session_attrs", value)) => self.role = role(value)?,
                Some(("sslmode", mode @ ("verify-full" | "verify-ca"))) => {
                    self.any_name = mode == "verify-ca";
                    kept.push("sslmode=require".into());
                }
                Some(("sslmode", "disable" | "prefer" | "require")) => kept.push(parameter.into()),
                // The library expects one parameter for each host.
                Some(("host", hosts)) => {
                    kept.extend(hosts.split(',').map(|host| format!("host={host}").into()));
                }
                Some(("sslmode", _)) => return Err(WRONG_SSLMODE.to_owned()),
                _ => kept.push(parameter.into()),
            }
        }
        Ok(format!("{before}?{}", kept.join("&")))
    }
}

fn role(value: &str) -> Result<HostRole, String> {
    Ok(match value {
        "any" => HostRole::Any,
        "primary" | "read-write" => HostRole::Primary,
        "standby" | "read-only" => HostRole::Standby,
        "prefer-standby" => HostRole::PreferStandby,
        _ => return Err(WRONG_ROLE.to_owned()),
    })
}

/// Returns one configuration for each host, without what [`target`] sets. The library would try the hosts one after the other,
/// each up to the whole timeout.
fn split_hosts(config: &Config) -> Result<Vec<Config>, String> {
    let (hosts, addresses, ports) =
        (config.get_hosts(), config.get_hostaddrs(), config.get_ports());
    let count = hosts.len().max(addresses.len());
    if count == 0 {
        return Err("it names no host".to_owned());
    }
    if !hosts.is_empty() && !addresses.is_empty() && hosts.len() != addresses.len() {
        return Err("the numbers of hosts and of host addresses differ".to_owned());
    }
    if ports.len() > 1 && ports.len() != count {
        return Err("the numbers of ports and of hosts differ".to_owned());
    }
    let one = |index: usize| {
        let mut one = Config::new();
        one.ssl_mode(config.get_ssl_mode());
        one.ssl_negotiation(config.get_ssl_negotiation());
        one.channel_binding(config.get_channel_binding());
        config.get_user().map(|user| one.user(user));
        config.get_password().map(|password| one.password(password));
        config.get_dbname().map(|name| one.dbname(name));
        config.get_options().map(|options| one.options(options));
        config.get_application_name().map(|name| one.application_name(name));
        hosts.get(index).map(|host| match host {
            Host::Tcp(name) => one.host(name),
            Host::Unix(folder) => one.host_path(folder),
        });
        addresses.get(index).map(|address| one.hostaddr(*address));
        ports.get(index).or(ports.first()).map(|port| one.port(*port));
        one
    };
    Ok((0..count).map(one).collect())
}

/// The parser's error without parts of the URL, which may contain the password.
fn without_secrets(error: &tokio_postgres::Error, url: &str) -> String {
    let reason = std::error::Error::source(error).map(ToString::to_string).unwrap_or_default();
    // Otherwise the options may be a part of the password.
    let names_options = url.split_once('?').is_some_and(|(_, options)| !options.contains('@'));
    for known in ["unknown option", "invalid value for option"] {
        if let Some(rest) = reason.strip_prefix(known) {
            // Quotes only what looks like the name of an option.
            let name = rest.trim().trim_matches(['`', '\'', '"']);
            let is_name = name.chars().all(|c| c.is_ascii_lowercase() || c == '_');
            if is_name && name.len() < 32 && names_options {
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
