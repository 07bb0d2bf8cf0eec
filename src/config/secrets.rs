//! Secrets: each is given by itself, or by the file that its key with `_file` names. Line breaks at
//! the end are removed, since most files and many variables have one.

use std::fs::read_to_string;
use std::path::PathBuf;

use secrecy::{ExposeSecret, SecretString};

use super::checks::Checks;
use super::error::ConfigError;
use super::root::Config;
use crate::net::io_reason;

impl Config {
    /// Reads the secrets that are in files. An empty secret, or name of a file, counts as not set,
    /// which is how compose files unset values.
    pub(super) fn read_secrets(&mut self) -> Vec<ConfigError> {
        let Self { upstream, redis, control, keys, .. } = self;
        let (sentinel, mut checks) = (&mut redis.sentinel, Checks::default());
        for (key, secret, file) in [
            ("upstream.url", &mut upstream.url, &upstream.url_file),
            ("redis.url", &mut redis.url, &redis.url_file),
            ("redis.password", &mut redis.password, &redis.password_file),
            ("redis.sentinel.password", &mut sentinel.password, &sentinel.password_file),
            ("control.database_url", &mut control.database_url, &control.database_url_file),
            (
                "keys.usage_database_url",
                &mut keys.usage_database_url,
                &keys.usage_database_url_file,
            ),
        ] {
            *secret = secret.as_ref().and_then(trimmed);
            if let Some(text) = content(key, secret.is_some(), file, &mut checks) {
                *secret = trimmed(&text);
            }
        }
        for (key, secrets, file) in [
            ("upstream.read_urls", &mut upstream.read_urls, &upstream.read_urls_file),
            ("redis.urls", &mut redis.urls, &redis.urls_file),
        ] {
            *secrets = secrets.iter().filter_map(trimmed).collect();
            if let Some(text) = content(key, !secrets.is_empty(), file, &mut checks) {
                *secrets =
                    text.expose_secret().lines().filter_map(|one| trimmed(&one.into())).collect();
            }
        }
        checks.into_errors()
    }
}

/// The secret without line breaks at its end; `None` if nothing is left.
fn trimmed(secret: &SecretString) -> Option<SecretString> {
    let text = secret.expose_secret().trim_end_matches(['\r', '\n']);
    (!text.is_empty()).then(|| text.into())
}

/// The content of the file that the key `key` with `_file` names, unless there is an error or none.
fn content(
    key: &str,
    is_set: bool,
    file: &Option<PathBuf>,
    checks: &mut Checks,
) -> Option<SecretString> {
    let file = file.as_ref().filter(|file| !file.as_os_str().is_empty())?;
    let file_key = format!("{key}_file");
    let mut require = |valid, problem: &str| checks.require(valid, &[&file_key, key], problem);
    if is_set {
        require(false, &format!("must not be set beside {key}; set one of them"));
        return None;
    }
    match read_to_string(file).map(SecretString::from) {
        Err(error) => {
            require(false, &format!("cannot read {}: {}", file.display(), io_reason(&error)))
        }
        Ok(text) if trimmed(&text).is_none() => {
            require(false, &format!("{} is empty", file.display()));
        }
        Ok(text) => return Some(text),
    }
    None
}
