//! TOML files, read by the current release of the parser; figment's own feature uses an old one. Errors
//! have the position and the reason, never the line, which may hold a secret.

use std::fmt;
use std::fs::read_to_string;
use std::path::Path;

use figment::providers::Format;
use serde::de::{self, DeserializeOwned};

use crate::net::io_reason;

pub(super) struct Toml;

/// Why a file cannot be used.
#[derive(Debug)]
pub(super) struct TomlError(String);

impl Format for Toml {
    type Error = TomlError;

    const NAME: &'static str = "TOML";

    fn from_str<T: DeserializeOwned>(text: &str) -> Result<T, TomlError> {
        toml::from_str(text).map_err(|error| TomlError::at_position(text, &error))
    }

    fn from_path<T: DeserializeOwned>(path: &Path) -> Result<T, TomlError> {
        let file = path.display();
        let text = read_to_string(path)
            .map_err(|error| TomlError(format!("cannot read {file}: {}", io_reason(&error))))?;
        Self::from_str(&text).map_err(|error| TomlError(format!("{file}, {error}")))
    }
}

impl TomlError {
    fn at_position(text: &str, error: &toml::de::Error) -> Self {
        let start = error.span().map_or(0, |span| span.start);
        let before = text.get(..start).unwrap_or(text);
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        Self(format!("line {line}, column {column}: {}", error.message()))
    }
}

impl fmt::Display for TomlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for TomlError {}

impl de::Error for TomlError {
    fn custom<T: fmt::Display>(reason: T) -> Self {
        Self(reason.to_string())
    }
}
