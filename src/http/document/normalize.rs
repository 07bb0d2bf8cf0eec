//! Turns the framework's document into a readable one: redundant fields dropped, whole numbers
//! written as such, keys in reading order.

use bytes::Bytes;
use serde_json::{Map, Value, json};

/// Removes `base` from the paths: the document's server URL ends in it.
pub(super) fn move_paths_below(document: &mut Value, base: &str) {
    let Some(paths) = document["paths"].as_object_mut() else { return };
    *paths = std::mem::take(paths)
        .into_iter()
        .map(|(path, item)| (path.strip_prefix(base).unwrap_or(&path).to_owned(), item))
        .collect();
}

/// Drops empty and redundant fields and writes whole numbers as such. To be called before examples
/// are added: they are data.
pub(super) fn normalize(document: &mut Value) {
    for_each_object(document, &mut |object| {
        for redundant in ["explode", "deprecated", "style"] {
            if matches!(object.get(redundant), Some(Value::Bool(_) | Value::Null)) {
                object.remove(redundant);
            }
        }
        if object.get("tags").is_some_and(|tags| tags.as_array().is_some_and(Vec::is_empty)) {
            object.remove("tags");
        }
        // The framework puts a field's description beside its reference as a schema of its own.
        if let Some(Value::Array(parts)) = object.get_mut("allOf") {
            parts.retain(|part| !is_description_alone(part));
        }
        // A reference with nothing beside it needs no `allOf` around it.
        if let (1, Some([only])) =
            (object.len(), object.get("allOf").and_then(Value::as_array).map(Vec::as_slice))
            && let Some(reference) = only.get("$ref").cloned()
        {
            *object = Map::from_iter([("$ref".to_owned(), reference)]);
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

/// The document with its top-level fields in the order in which people read them.
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

/// The text of a document, as JSON for people.
pub(super) fn json_text(document: &Value) -> Bytes {
    // Writing a JSON value cannot fail.
    let text = serde_json::to_string_pretty(document).unwrap_or_default();
    (text + "\n").into()
}

/// Calls `change` on every object, outer ones first.
pub(super) fn for_each_object(value: &mut Value, change: &mut impl FnMut(&mut Map<String, Value>)) {
    match value {
        Value::Object(object) => {
            change(object);
            object.values_mut().for_each(|value| for_each_object(value, change));
        }
        Value::Array(items) => items.iter_mut().for_each(|value| for_each_object(value, change)),
        _ => {}
    }
}
