//! What the framework writes, put straight.

use serde_json::{Map, Value, json};

use super::for_each_object;

/// Routes carry their base, the document's paths do not: clients join server and path.
pub(crate) fn move_paths_below(document: &mut Value, base: &str) {
    let Some(paths) = document["paths"].as_object_mut() else { return };
    *paths = std::mem::take(paths)
        .into_iter()
        .map(|(path, item)| (path.strip_prefix(base).unwrap_or(&path).to_owned(), item))
        .collect();
}

/// Drops what says nothing, and writes whole numbers as such. Examples are data: they come later.
pub(crate) fn normalize(document: &mut Value) {
    for_each_object(document, &mut |object| {
        for noise in ["explode", "deprecated", "style"] {
            if matches!(object.get(noise), Some(Value::Bool(_) | Value::Null)) {
                object.remove(noise);
            }
        }
        if object.get("tags").is_some_and(|tags| tags.as_array().is_some_and(Vec::is_empty)) {
            object.remove("tags");
        }
        // The framework puts a field's description beside its reference as a schema of its own.
        if let Some(Value::Array(parts)) = object.get_mut("allOf") {
            parts.retain(|part| !is_description_alone(part));
        }
        for bound in ["minimum", "maximum"] {
            if let Some(number) = object.get(bound).and_then(Value::as_f64)
                && number.fract() == 0.0
                && number.abs() <= crate::registry::MAX_SAFE_INTEGER as f64
            {
                object.insert(bound.to_owned(), json!(number as i64));
            }
        }
    });
}

fn is_description_alone(schema: &Value) -> bool {
    schema.as_object().is_some_and(|fields| fields.len() == 1 && fields.contains_key("description"))
}

/// The order in which people read a document.
pub(crate) fn in_order(document: Value) -> Value {
    let Value::Object(mut fields) = document else { return document };
    let mut ordered = Map::new();
    for key in ["openapi", "info", "servers", "security", "tags", "paths", "components"] {
        if let Some(value) = fields.remove(key) {
            ordered.insert(key.to_owned(), value);
        }
    }
    ordered.extend(fields);
    Value::Object(ordered)
}
