//! Whether a configuration can be used: what its values refer to, files and addresses, is looked
//! at before anything is started. `config check` and `serve` ask this.

use std::path::Path;

use super::StartError;
use crate::config::{Config, ConfigError, InvalidConfig, LoadedConfig, UpstreamConfig};
use crate::net::tls;
use crate::ops::telemetry;
use crate::redis::Servers;
use crate::server::ServerTls;
use crate::upstream::postgres::{self, SetupError};

/// Reads a configuration that can be used.
///
/// # Errors
/// [`InvalidConfig`], with everything that is wrong.
pub fn load_config(file: Option<&Path>) -> Result<LoadedConfig, InvalidConfig> {
    match LoadedConfig::read(file) {
        Ok(loaded) => match unusable(&loaded.config) {
            faults if faults.is_empty() => Ok(loaded),
            faults => Err(faults.into()),
        },
        Err(invalid) => Err(invalid.and(unusable)),
    }
}

/// Of a configuration whose values are good by themselves, what can't be used.
fn unusable(config: &Config) -> Vec<ConfigError> {
    let mut found = Vec::new();
    if let Err(error) = telemetry::check(&config.log) {
        found.push(ConfigError::worded(&["log.level"], error.to_string()));
    }
    found.extend(upstream(config));
    found.extend(keys_database(config));
    if let Err(error) = Servers::read(&config.redis) {
        found.push(ConfigError::worded(&[error.key], error.to_string()));
    }
    for (key, path) in [
        ("upstream.tls_ca_file", &config.upstream.tls_ca_file),
        ("control.oidc.tls_ca_file", &config.control.oidc.tls_ca_file),
    ] {
        if let Some(path) = path.as_deref().filter(|path| !path.as_os_str().is_empty())
            && let Err(error) = tls::client(Some(path))
        {
            found.push(ConfigError::new(&[key], &error.to_string()));
        }
    }
    found.extend(certificate(config));
    found
}

fn upstream(config: &Config) -> Option<ConfigError> {
    config.upstream.url.as_ref()?;
    let error = url_fault(config.upstream.clone())?;
    Some(ConfigError::worded(&["upstream.url"], error.to_string()))
}

fn keys_database(config: &Config) -> Option<ConfigError> {
    let url = config.control.database_url.clone()?;
    let error = url_fault(UpstreamConfig { url: Some(url), ..config.upstream.clone() })?;
    let text = StartError::KeysDatabase(error).to_string();
    Some(ConfigError::worded(&["control.database_url"], text))
}

/// The authorities are looked at by themselves.
fn url_fault(config: UpstreamConfig) -> Option<SetupError> {
    postgres::check(&UpstreamConfig { tls_ca_file: None, ..config }).err()
}

fn certificate(config: &Config) -> Vec<ConfigError> {
    let Some((cert, key)) = config.server.tls.files() else { return Vec::new() };
    if [cert, key].iter().any(|path| path.as_os_str().is_empty()) {
        return Vec::new();
    }
    let keys = ["server.tls", "server.tls.cert_file", "server.tls.key_file"];
    ServerTls::faults(cert, key)
        .iter()
        .map(|error| ConfigError::new(&keys, &error.to_string()))
        .collect()
}
