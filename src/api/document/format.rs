//! The formats of the document's text.

/// The format of a document's text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DocumentFormat {
    /// JSON.
    Json,
    /// YAML.
    Yaml,
}

impl DocumentFormat {
    /// Its media type.
    pub(in crate::api) const fn content_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Yaml => "application/yaml",
        }
    }
}
