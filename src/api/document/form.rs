//! The forms in which the document is served: versions of OpenAPI and formats of the text.

use poem_openapi::registry::MetaSchema;

use crate::http::parameter::QueryValue;

/// A version of OpenAPI.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum OpenApiVersion {
    /// 3.0.3, which every generator reads.
    #[default]
    V30,
    /// 3.1.0.
    V31,
}

impl QueryValue for OpenApiVersion {
    const ALLOWED: &'static str = "one of 3.0, 3.1";

    fn schema() -> MetaSchema {
        let enum_items = vec!["3.0".into(), "3.1".into()];
        MetaSchema { enum_items, default: Some("3.0".into()), ..MetaSchema::new("string") }
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
