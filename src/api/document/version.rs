//! Derives the OpenAPI 3.1 document from that of 3.0.3.
//!
//! Two things change: the version, and examples of schemas become a list. The document uses neither
//! `nullable` nor exclusive bounds, whose meaning changed too; a test ensures that.

use serde_json::{Map, Value, json};

/// The same document as 3.1.0.
pub(super) fn to_31(document: &Value) -> Value {
    let mut derived = document.clone();
    derived["openapi"] = "3.1.0".into();
    schemas_within(&mut derived);
    derived
}

/// Converts schemas only where OpenAPI has them: examples may contain anything.
fn schemas_within(value: &mut Value) {
    match value {
        Value::Object(object) => {
            for (name, inner) in object {
                match name.as_str() {
                    "example" | "examples" => {}
                    "schema" => schema(inner),
                    "schemas" => inner.as_object_mut().into_iter().for_each(each_schema),
                    _ => schemas_within(inner),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(schemas_within),
        _ => {}
    }
}

fn each_schema(schemas: &mut Map<String, Value>) {
    schemas.values_mut().for_each(schema);
}

fn schema(value: &mut Value) {
    let Some(object) = value.as_object_mut() else { return };
    if let Some(example) = object.remove("example") {
        object.insert("examples".to_owned(), json!([example]));
    }
    for (keyword, inner) in object {
        match (keyword.as_str(), inner) {
            ("properties", Value::Object(properties)) => each_schema(properties),
            ("allOf" | "anyOf" | "oneOf", Value::Array(parts)) => parts.iter_mut().for_each(schema),
            ("items" | "additionalProperties" | "not", inner) => schema(inner),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_examples_of_schemas_become_lists() {
        let parameter = json!({ "schema": { "type": "string", "example": "a" }, "example": "a" });
        let content = json!({ "example": { "schema": { "example": 1 } } });
        let of = |version: &str, schema: Value, property: Value| {
            json!({
                "openapi": version,
                "paths": { "/a": { "parameters": [{ "schema": schema, "example": "a" }],
                                   "content": content } },
                "components": { "schemas": { "A": {
                    "properties": { "example": { "allOf": [{ "items": property }] } },
                } } },
            })
        };
        let old = of("3.0.3", parameter["schema"].clone(), json!({ "example": { "b": 1 } }));
        let string = json!({ "type": "string", "examples": ["a"] });
        assert_eq!(to_31(&old), of("3.1.0", string, json!({ "examples": [{ "b": 1 }] })));
    }
}
