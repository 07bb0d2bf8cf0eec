//! The versions of OpenAPI in which documents are served.

use poem_openapi::registry::MetaSchema;
use serde_json::{Map, Value, json};

use super::normalize::for_each_object;
use crate::http::parameter::ParameterValue;

/// A version of OpenAPI.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OpenApiVersion {
    /// 3.0.3, which every generator reads.
    V30,
    /// 3.1.0.
    V31,
}

impl OpenApiVersion {
    /// Turns a document of version 3.0.3 into one of this version. Only `nullable` differs: the
    /// documents have no exclusive bounds and no examples of schemas, whose meaning changed too.
    pub(crate) fn convert(self, document: &mut Value) {
        if self == Self::V31 {
            document["openapi"] = "3.1.0".into();
            for_each_object(document, &mut allow_null);
        }
    }
}

/// Writes `nullable` as a type.
fn allow_null(schema: &mut Map<String, Value>) {
    if schema.get("type").is_some_and(Value::is_string)
        && schema.remove("nullable") == Some(true.into())
    {
        schema["type"] = json!([schema["type"], "null"]);
    }
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
