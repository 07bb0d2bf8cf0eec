//! Reads a configuration and checks that it can be used: also the URLs, and the files that its
//! values name. `config check` and `serve` share this.

use std::path::Path;

use secrecy::SecretString;

use super::error::StartError;
use crate::config::{Config, ConfigError, InvalidConfig, LoadedConfig, UpstreamConfig};
use crate::net::tls;
use crate::ops::telemetry;
use crate::redis::Servers;
use crate::server::ServerTls;
use crate::upstream::postgres::{self, SetupError};

/// Reads the configuration from `file` and the environment, and checks it. Opens no connection.
///
/// # Errors
/// [`InvalidConfig`], which lists every error.
pub fn load_config(file: Option<&Path>) -> Result<LoadedConfig, InvalidConfig> {
    match LoadedConfig::read(file) {
        Ok(loaded) => match check(&loaded.config) {
            errors if errors.is_empty() => Ok(loaded),
            errors => Err(errors.into()),
        },
        Err(invalid) => Err(invalid.and(check)),
    }
}

/// Checks what the values refer to: URLs, files, log directives.
fn check(config: &Config) -> Vec<ConfigError> {
    let mut errors = Vec::new();
    if let Err(error) = telemetry::check(&config.log) {
        errors.push(ConfigError::with_text(&["log.level"], error.to_string()));
    }
    errors.extend(upstream(config));
    errors.extend(database("control.database_url", config.control.database_url.as_ref(), config));
    let usage_url = config.keys.usage_database_url.as_ref();
    errors.extend(database("keys.usage_database_url", usage_url, config));
    if let Err(error) = Servers::read(&config.redis) {
        errors.push(ConfigError::with_text(&[error.key], error.to_string()));
    }
    for (key, path) in [
        ("upstream.tls_ca_file", &config.upstream.tls_ca_file),
        ("control.oidc.tls_ca_file", &config.control.oidc.tls_ca_file),
    ] {
        if let Some(path) = path.as_deref().filter(|path| !path.as_os_str().is_empty())
            && let Err(error) = tls::client(Some(path))
        {
            errors.push(ConfigError::new(&[key], &error.to_string()));
        }
    }
    errors.extend(certificate(config));
    errors
}

fn upstream(config: &Config) -> Option<ConfigError> {
    let error = url_error(config.upstream.clone())?;
    Some(ConfigError::with_text(&["upstream.url"], error.to_string()))
}

/// Checks the URL `url` of the configuration key `key`, which overrides that of the upstream.
fn database(key: &'static str, url: Option<&SecretString>, config: &Config) -> Option<ConfigError> {
    let error = url_error(UpstreamConfig { url: Some(url?.clone()), ..config.upstream.clone() })?;
    let text = StartError::Database { key, error }.to_string();
    Some(ConfigError::with_text(&[key], text))
}

/// Ignores the file of certificate authorities, which [`check`] reports under its own key.
fn url_error(config: UpstreamConfig) -> Option<SetupError> {
    postgres::check(&UpstreamConfig { tls_ca_file: None, ..config }).err()
}

fn certificate(config: &Config) -> Vec<ConfigError> {
    let Some((cert, key)) = config.server.tls.files() else { return Vec::new() };
    if [cert, key].iter().any(|path| path.as_os_str().is_empty()) {
        return Vec::new();
    }
    let keys = ["server.tls", "server.tls.cert_file", "server.tls.key_file"];
    ServerTls::check(cert, key)
        .iter()
        .map(|error| ConfigError::new(&keys, &error.to_string()))
        .collect()
}
