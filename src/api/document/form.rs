//! The forms in which the document is served: versions of OpenAPI and formats of the text.

use poem_openapi::registry::MetaSchema;

use crate::http::parameter::ParameterValue;

/// A version of OpenAPI.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OpenApiVersion {
    /// 3.0.3, which every generator reads.
    V30,
    /// 3.1.0. The document is otherwise the same: it has no `nullable`, no exclusive bounds and no
    /// examples of schemas, whose meaning changed. A test ensures that.
    V31,
}

impl ParameterValue for OpenApiVersion {
    const ALLOWED: &'static str = "one of 3.0, 3.1";

    /// The document does not describe the route that serves it.
    fn schema() -> MetaSchema {
        MetaSchema::new("string")
    }

    fn parse(given: Option<&str>) -> Option<Self> {
        match given {
            None | Some("3.0") => Some(Self::V30),
            Some("3.1") => Some(Self::V31),
            Some(_) => None,
        }
    }
}

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
