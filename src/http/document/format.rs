//! The formats of a document's text.

use bytes::Bytes;
use serde_json::Value;

use super::normalize::json_text;

/// The format of a document's text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DocumentFormat {
    /// JSON.
    Json,
    /// YAML.
    Yaml,
}

impl DocumentFormat {
    /// The text of a document.
    pub(crate) fn text(self, document: &Value) -> Bytes {
        match self {
            Self::Json => json_text(document),
            // Writing a JSON value cannot fail.
            Self::Yaml => serde_saphyr::to_string(document).unwrap_or_default().into(),
        }
    }

    /// Its media type.
    pub(crate) const fn content_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Yaml => "application/yaml",
        }
    }
}
