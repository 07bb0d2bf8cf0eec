//! Defaults, file, environment; and where each value came from.

use std::path::Path;

use figment::providers::{Env, Format, Toml};
use figment::{Figment, Profile, Provider};
use thiserror::Error;

use super::Config;

const DEFAULTS: &str = include_str!("../../config/default.toml");

/// Environment variables that override keys begin with this.
const PREFIX: &str = "GENE_REGISTRY__";

/// Keys whose values are never shown.
const SECRETS: [&str; 4] =
    ["upstream.url", "upstream.read_urls", "redis.url", "control.database_url"];

/// The configuration can't be used. Each line names the key.
#[derive(Debug, Error)]
#[error("the configuration cannot be used:\n  {}", .0.join("\n  "))]
pub struct InvalidConfig(Vec<String>);

/// A configuration and where its values came from.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// The values.
    pub config: Config,
    figment: Figment,
}

/// One effective value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Effective {
    /// The key, with its sections.
    pub key: String,
    /// The value as TOML; secrets are masked.
    pub value: String,
    /// Where it came from.
    pub source: String,
}

impl Loaded {
    /// Reads defaults, then `file`, then the environment.
    ///
    /// # Errors
    /// [`InvalidConfig`].
    pub fn read(file: Option<&Path>) -> Result<Self, InvalidConfig> {
        let mut figment = Figment::from(Toml::string(DEFAULTS));
        if let Some(file) = file {
            figment = figment.merge(Toml::file_exact(file));
        }
        let figment = figment
            .merge(well_known("DATABASE_URL", "upstream.url"))
            .merge(well_known("REDIS_URL", "redis.url"))
            .merge(well_known("CONTROL_DATABASE_URL", "control.database_url"))
            .merge(Env::prefixed(PREFIX).split("__"));
        let config: Config = figment.extract().map_err(|errors| {
            InvalidConfig(errors.into_iter().map(|error| explain(&figment, &error)).collect())
        })?;
        let contradictions = config.contradictions();
        if contradictions.is_empty() {
            Ok(Self { config: config.without_empty_urls(), figment })
        } else {
            Err(InvalidConfig(contradictions))
        }
    }

    /// Every effective value, in the order of the keys.
    pub fn effective(&self) -> Vec<Effective> {
        let mut found = Vec::new();
        let root = self.figment.data().ok().and_then(|mut data| data.remove(&Profile::Default));
        if let Some(root) = root {
            self.collect(String::new(), &root.into(), &mut found);
        }
        found
    }

    fn collect(&self, key: String, value: &figment::value::Value, found: &mut Vec<Effective>) {
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
        found.push(Effective { source: self.source_of(&key), key, value });
    }

    fn source_of(&self, key: &str) -> String {
        match self.figment.find_metadata(key) {
            Some(metadata) => source_name(metadata, key),
            None => "unknown".to_owned(),
        }
    }
}

/// A variable that other programs know too.
fn well_known(variable: &'static str, key: &'static str) -> Env {
    Env::raw().only(&[variable]).map(move |_| key.into()).split(".")
}

fn source_name(metadata: &figment::Metadata, key: &str) -> String {
    match (&metadata.source, metadata.name.as_ref()) {
        (Some(figment::Source::File(path)), _) => path.display().to_string(),
        (_, name) if name.contains(PREFIX) => {
            format!("{PREFIX}{}", key.to_uppercase().replace('.', "__"))
        }
        (_, name) if name.contains("environment") => {
            let variable = match key {
                "upstream.url" => "DATABASE_URL",
                "redis.url" => "REDIS_URL",
                _ => "CONTROL_DATABASE_URL",
            };
            variable.to_owned()
        }
        _ => "default".to_owned(),
    }
}

/// Names the key and where it stands; never repeats the value of a secret.
fn explain(figment: &Figment, error: &figment::Error) -> String {
    let key = error.path.join(".");
    let source = match (&error.metadata, figment.find_metadata(&key)) {
        (Some(metadata), _) | (None, Some(metadata)) => source_name(metadata, &key),
        (None, None) => "configuration".to_owned(),
    };
    let what = match &error.kind {
        figment::error::Kind::UnknownField(field, expected) => {
            let section = error.path.iter().filter(|part| part != &field);
            let section = section.cloned().collect::<Vec<_>>().join(".");
            let dot = if section.is_empty() { "" } else { "." };
            return format!(
                "{section}{dot}{field} ({source}): unknown key; known here: {}",
                expected.join(", ")
            );
        }
        _ if SECRETS.iter().any(|secret| key.starts_with(secret)) => "not a usable URL".to_owned(),
        kind => kind.to_string(),
    };
    format!("{key} ({source}): {what}")
}
