//! Reads the configuration: defaults, overridden by the file, overridden by the environment. Keeps
//! the source of each value, for error messages and `config print`.

use std::path::Path;

use figment::providers::{Env, Format};
use figment::util::nest;
use figment::value::{Dict, Map};
use figment::{Figment, Metadata, Profile, Provider};
use serde::de::DeserializeOwned;

use super::error::ConfigError;
use super::invalid::{self, InvalidConfig};
use super::root::Config;
use super::values;

const DEFAULTS: &str = include_str!("../../config/default.toml");

/// The prefix of the environment variables that override keys.
const PREFIX: &str = "GENE_REGISTRY__";

/// The variables without the prefix, which other programs use too, and the keys that they set.
const WELL_KNOWN: [(&str, &str); 4] = [
    ("DATABASE_URL", "upstream.url"),
    ("REDIS_URL", "redis.url"),
    ("CONTROL_DATABASE_URL", "control.database_url"),
    ("USAGE_DATABASE_URL", "keys.usage_database_url"),
];

/// The source of a value that is not set.
const DEFAULT: &str = "default";

/// Keys whose values are never displayed.
const SECRETS: [&str; 8] = [
    "upstream.url",
    "upstream.read_urls",
    "redis.url",
    "redis.urls",
    "redis.password",
    "redis.sentinel.password",
    "control.database_url",
    "keys.usage_database_url",
];

/// Keys whose values in the environment are taken literally, not parsed as TOML.
const LITERALS: [&str; 8] = [
    "control.oidc.audience",
    "control.oidc.client_id",
    "redis.prefix",
    "redis.username",
    "redis.password",
    "redis.sentinel.service",
    "redis.sentinel.username",
    "redis.sentinel.password",
];

/// A configuration and the source of each value.
#[derive(Debug, Clone)]
pub struct LoadedConfig {
    /// The values.
    pub config: Config,
    figment: Figment,
}

/// One effective value, for display.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EffectiveValue {
    /// The key, with its sections.
    pub key: String,
    /// The value as TOML; secrets are masked.
    pub value: String,
    /// Its source: a file, an environment variable or `default`.
    pub source: String,
}

impl LoadedConfig {
    /// Reads defaults, then `file`, then the environment.
    ///
    /// # Errors
    /// [`InvalidConfig`], which lists every error.
    pub fn read(file: Option<&Path>) -> Result<Self, InvalidConfig> {
        Self::read_over("", file)
    }

    /// As [`Self::read`]; `own_defaults`, as TOML, replace those defaults that they set.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn read_over(own_defaults: &str, file: Option<&Path>) -> Result<Self, InvalidConfig> {
        let defaults = Figment::from(Toml::string(DEFAULTS)).merge(Toml::string(own_defaults));
        let mut figment = defaults.clone();
        if let Some(file) = file {
            figment = figment.merge(Toml::file_exact(file));
        }
        for (variable, key) in WELL_KNOWN {
            let value = Env::raw().only(&[variable]).map(move |_| key.into());
            figment = figment.merge(value.split("."));
        }
        figment = figment.merge(Env::prefixed(PREFIX).split("__"));
        for key in LITERALS {
            figment = figment.merge(LiteralVariable(key));
        }
        let explain = |path: &[String], error: &figment::Error| explain(&figment, path, error);
        let (config, mut errors) = values::read(&figment, &defaults, explain);
        if let Some(config) = &config {
            invalid::add(&mut errors, config.check());
        }
        match config.map(Config::without_empty_urls) {
            Some(config) if errors.is_empty() => Ok(Self { config, figment }),
            with_defaults => {
                Err(InvalidConfig { errors, with_defaults: with_defaults.map(Box::new) })
            }
        }
    }

    /// Whether neither the file nor the environment sets this key.
    pub fn is_default(&self, key: &str) -> bool {
        self.source_of(key) == DEFAULT
    }

    /// Every effective value, ordered by key.
    pub fn effective(&self) -> Vec<EffectiveValue> {
        let mut found = Vec::new();
        let root = self.figment.data().ok().and_then(|mut data| data.remove(&Profile::Default));
        if let Some(root) = root {
            self.collect(String::new(), &root.into(), &mut found);
        }
        found
    }

    fn collect(&self, key: String, value: &figment::value::Value, found: &mut Vec<EffectiveValue>) {
        if let figment::value::Value::Dict(_, fields) = value {
            for (name, value) in fields {
                let key = if key.is_empty() { name.clone() } else { format!("{key}.{name}") };
                self.collect(key, value, found);
            }
            return;
        }
        let value = if SECRETS.contains(&key.as_str()) {
            "\"***\"".to_owned()
        } else {
            serde_json::to_string(value).unwrap_or_default()
        };
        found.push(EffectiveValue { source: self.source_of(&key), key, value });
    }

    fn source_of(&self, key: &str) -> String {
        match self.figment.find_metadata(key) {
            Some(metadata) => source_name(metadata, key),
            None => DEFAULT.to_owned(),
        }
    }
}

/// TOML files, read by the current release of the parser; figment's own feature uses an old one.
struct Toml;

impl Format for Toml {
    type Error = toml::de::Error;

    const NAME: &'static str = "TOML";

    fn from_str<T: DeserializeOwned>(text: &str) -> Result<T, toml::de::Error> {
        toml::from_str(text)
    }
}

/// The environment variable of a key, taken literally: a password such as `007`, `true` or `"x"`
/// must not be parsed as TOML.
struct LiteralVariable(&'static str);

impl Provider for LiteralVariable {
    fn metadata(&self) -> Metadata {
        Metadata::named(format!("`{PREFIX}` environment variable(s)"))
    }

    fn data(&self) -> Result<Map<Profile, Dict>, figment::Error> {
        let value = std::env::var(variable_of(self.0)).ok();
        let nested = value.and_then(|value| nest(self.0, value.into()).into_dict());
        Ok(Profile::Default.collect(nested.unwrap_or_default()))
    }
}

/// The variable that sets a key.
fn variable_of(key: &str) -> String {
    format!("{PREFIX}{}", key.to_uppercase().replace('.', "__"))
}

fn source_name(metadata: &Metadata, key: &str) -> String {
    match (&metadata.source, metadata.name.as_ref()) {
        (Some(figment::Source::File(path)), _) => path.display().to_string(),
        (_, name) if name.contains(PREFIX) => variable_of(key),
        (_, name) if name.contains("environment") => {
            let known = WELL_KNOWN.iter().find(|(_, known)| key.starts_with(known));
            known.map_or(DEFAULT, |(variable, _)| variable).to_owned()
        }
        _ => DEFAULT.to_owned(),
    }
}

/// An error that names the key and its source. It never contains the value of a secret.
fn explain(figment: &Figment, path: &[String], error: &figment::Error) -> ConfigError {
    let key = path.join(".");
    // An item has the source of its array.
    let known =
        (1..=path.len()).rev().find_map(|end| figment.find_metadata(&path[..end].join(".")));
    let source = error.metadata.as_ref().or(known);
    let source = source.map_or("configuration".to_owned(), |metadata| source_name(metadata, &key));
    let problem = match &error.kind {
        figment::error::Kind::UnknownField(_, expected) => {
            format!("unknown key; this section has: {}", expected.join(", "))
        }
        _ if key == "redis.urls" => {
            "not a list of URLs: urls = [\"redis://host:6379\", …]".to_owned()
        }
        _ if key.ends_with("password") => "not a string".to_owned(),
        _ if SECRETS.iter().any(|secret| key.starts_with(secret)) => "not a usable URL".to_owned(),
        kind => kind.to_string(),
    };
    ConfigError::with_text(&[&key], format!("{key} ({source}): {problem}"))
}
