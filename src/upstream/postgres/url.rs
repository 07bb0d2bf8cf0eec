//! From the configured URL to how a connection is made.

use std::time::Duration;

use secrecy::{ExposeSecret, SecretString};
use thiserror::Error;
use tokio_postgres::Config;

use crate::config::UpstreamConfig;

/// Why no connection could even be tried. Never holds the URL, which holds the password.
#[derive(Debug, Error)]
pub enum SetupError {
    /// No URL is configured.
    #[error("upstream.url: not set (DATABASE_URL sets it too)")]
    NoUrl,
    /// The URL can't be read.
    #[error("upstream.url: not a valid postgres:// URL: {0}")]
    Url(String),
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

/// The connection's configuration. No startup parameter but the ones every pooler takes.
pub(super) fn connection(config: &UpstreamConfig) -> Result<Config, SetupError> {
    let url = config.url.as_ref().ok_or(SetupError::NoUrl)?;
    let mut connection = parse(url)?;
    connection.connect_timeout(config.connect());
    connection.tcp_user_timeout(config.tcp_user_timeout());
    // An idle connection whose peer is gone is noticed before somebody needs it.
    connection.keepalives(true);
    connection.keepalives_idle(Duration::from_secs(10));
    connection.keepalives_interval(Duration::from_secs(2));
    connection.keepalives_retries(3);
    if connection.get_application_name().is_none() {
        connection.application_name("gene-registry");
    }
    Ok(connection)
}

fn parse(url: &SecretString) -> Result<Config, SetupError> {
    let url = url.expose_secret().trim();
    if !url.starts_with("postgres://") && !url.starts_with("postgresql://") {
        return Err(SetupError::Url("it must begin with postgres://".to_owned()));
    }
    let mut config: Config =
        without_verify_modes(url).parse().map_err(|error| SetupError::Url(harmless(&error)))?;
    if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
        return Err(SetupError::Url("it names no host".to_owned()));
    }
    if config.get_user().is_none() {
        // As psql does it. Without a name the server would answer with an error of its own.
        let user = ["PGUSER", "USER"].into_iter().find_map(|name| std::env::var(name).ok());
        config.user(user.unwrap_or_else(|| "postgres".to_owned()));
    }
    Ok(config)
}

/// libpq's `verify-ca` and `verify-full` are spelt `require` here, where certificates and host
/// names are always verified.
fn without_verify_modes(url: &str) -> String {
    let Some((before, query)) = url.split_once('?') else { return url.to_owned() };
    let parameters: Vec<&str> = query
        .split('&')
        .map(|parameter| match parameter {
            "sslmode=verify-ca" | "sslmode=verify-full" => "sslmode=require",
            other => other,
        })
        .collect();
    format!("{before}?{}", parameters.join("&"))
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
mod tests {
    use tokio_postgres::config::{Host, SslMode};

    use super::*;

    fn read(url: &str) -> Result<Config, SetupError> {
        parse(&SecretString::from(url.to_owned()))
    }

    #[test]
    fn passwords_with_special_characters_are_percent_encoded() {
        let config =
            read("postgres://u%40x:%40%3A%2F%23%25%3F%3D@db.example:6432/r").expect("a URL");
        assert_eq!(config.get_password(), Some(b"@:/#%?=".as_slice()));
        assert_eq!(config.get_user(), Some("u@x"));
        assert_eq!(config.get_ports(), [6432]);
        assert_eq!(config.get_hosts(), [Host::Tcp("db.example".to_owned())]);
    }

    #[test]
    fn sockets_and_ipv6_addresses_are_hosts() {
        let config = read("postgres:///db?host=/run/postgresql&user=u").expect("a URL");
        assert_eq!(config.get_hosts(), [Host::Unix("/run/postgresql".into())]);
        assert_eq!(config.get_dbname(), Some("db"));
        let config = read("postgres://u@%2Frun%2Fpostgresql/db").expect("a URL");
        assert_eq!(config.get_hosts(), [Host::Unix("/run/postgresql".into())]);
        let config = read("postgres://u@[::1]:5432/db").expect("a URL");
        assert_eq!(config.get_hosts(), [Host::Tcp("::1".to_owned())]);
    }

    #[test]
    fn every_verifying_mode_is_require() {
        for mode in ["require", "verify-ca", "verify-full"] {
            let config = read(&format!("postgres://u@h/db?sslmode={mode}&user=u")).expect("a URL");
            assert_eq!(config.get_ssl_mode(), SslMode::Require, "{mode}");
        }
        let config = read("postgres://u@h/db?sslmode=disable").expect("a URL");
        assert_eq!(config.get_ssl_mode(), SslMode::Disable);
    }

    #[test]
    fn refusals_never_quote_the_url() {
        for wrong in [
            "postgres://user:hunter2@host:notaport/db",
            "postgres://user:hunter2@host/db?hunter2=hunter2",
            "postgres://user:hunter2@host/db?sslmode=hunter2",
            "mysql://user:hunter2@host/db",
            "hunter2",
            "postgres:///hunter2",
            "postgres://user:hunter2@[::1/db",
        ] {
            let error = read(wrong).expect_err(wrong);
            for text in [error.to_string(), format!("{error:?}")] {
                assert!(!text.contains("hunter2"), "{wrong}: {text}");
            }
        }
    }
}
