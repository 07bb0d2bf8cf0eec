//! Reads the configuration: defaults, overridden by the file, overridden by the environment. Keeps
//! the source of each value, for error messages and `config print`.

use std::path::Path;

use figment::providers::{Env, Format};
use figment::util::nest;
use figment::value::{Dict, Map};
use figment::{Figment, Metadata, Profile, Provider};

use super::error::ConfigError;
use super::invalid::{self, InvalidConfig};
use super::reason::reason;
use super::root::Config;
use super::toml_format::Toml;
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

/// The variable that names the configuration file.
pub(crate) const CONFIG_FILE_VARIABLE: &str = "GENE_REGISTRY_CONFIG";

/// The source of a value that is not set.
const DEFAULT: &str = "default";

/// Keys whose values are never displayed. Each can be in a file instead; see [`super::secrets`].
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
        let (mut config, mut errors) = values::read(&figment, &defaults, explain);
        if let Some(config) = &mut config {
            invalid::add(&mut errors, config.read_secrets());
            invalid::add(&mut errors, config.check());
        }
        match config {
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
        let shown = serde_json::to_string(value).unwrap_or_default();
        let is_set = !["\"\"", "[]"].contains(&shown.as_str());
        let value = if is_secret(&key) && is_set { "\"***\"".to_owned() } else { shown };
        found.push(EffectiveValue { source: self.source_of(&key), key, value });
    }

    fn source_of(&self, key: &str) -> String {
        match self.figment.find_metadata(key) {
            Some(metadata) => source_name(metadata, key),
            None => DEFAULT.to_owned(),
        }
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

/// The environment variables that look like those of the service, and are not: with one underscore
/// instead of two, for example. Those that Kubernetes sets for a service of this name are left out.
pub(crate) fn unknown_variables() -> Vec<String> {
    let names = std::env::vars_os().map(|(name, _)| name.to_string_lossy().to_uppercase());
    let mut unknown: Vec<_> = names.filter(|name| is_unknown(name)).collect();
    unknown.sort();
    unknown
}

fn is_unknown(name: &str) -> bool {
    let is_service_link = ["_SERVICE_HOST", "_SERVICE_PORT", "_PORT_"];
    let is_service_link = is_service_link.iter().any(|part| name.contains(part));
    name.starts_with(PREFIX.trim_end_matches('_'))
        && !name.starts_with(PREFIX)
        && name != CONFIG_FILE_VARIABLE
        && !is_service_link
        && !name.ends_with("_PORT")
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

/// An error that names the key and its source. It never contains the value.
fn explain(figment: &Figment, path: &[String], error: &figment::Error) -> ConfigError {
    let key = path.join(".");
    let problem = match &error.kind {
        kind @ figment::error::Kind::UnknownField(..) => reason(kind),
        _ if key == "redis.urls" => {
            "not a list of URLs: urls = [\"redis://host:6379\", …]".to_owned()
        }
        _ if key.ends_with("password") => "not a string".to_owned(),
        _ if is_secret(&key) => "not a usable URL".to_owned(),
        kind => reason(kind),
    };
    // The reason why a file cannot be read names the file.
    if key.is_empty() {
        return ConfigError::with_text(&[], problem);
    }
    // An item has the source of its array.
    let known =
        (1..=path.len()).rev().find_map(|end| figment.find_metadata(&path[..end].join(".")));
    let source = error.metadata.as_ref().or(known);
    let source = source.map_or("configuration".to_owned(), |metadata| source_name(metadata, &key));
    ConfigError::with_text(&[&key], format!("{key} ({source}): {problem}"))
}

/// Whether the key, or the array that it is an item of, is a secret.
fn is_secret(key: &str) -> bool {
    SECRETS.iter().any(|secret| {
        key.strip_prefix(secret).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    })
}
