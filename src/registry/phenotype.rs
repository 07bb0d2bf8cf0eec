//! The two schemas of a gene, extracted from the stored object.

use serde::Serialize;
use serde_json::{Map, Value, json};

/// The input and output of a gene, each described in the style of JSON Schema. Stored schemas are
/// passed on unchanged, even if they are irregular.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Phenotype {
    /// Description of the input.
    pub input: Value,
    /// Description of the output.
    pub output: Value,
}

impl Phenotype {
    /// Reads a stored phenotype. `input` and `output` take precedence over the older keys
    /// `inputSchema` and `outputSchema`; other keys are dropped. An absent or empty schema becomes
    /// `{"type":"object","properties":{}}`.
    pub fn from_stored(stored: Option<Value>) -> Self {
        let mut fields = match stored {
            Some(Value::Object(fields)) => fields,
            _ => Map::new(),
        };
        Self {
            input: schema(&mut fields, "input", "inputSchema"),
            output: schema(&mut fields, "output", "outputSchema"),
        }
    }
}

fn schema(fields: &mut Map<String, Value>, name: &str, older_name: &str) -> Value {
    [name, older_name]
        .into_iter()
        .filter_map(|key| fields.remove(key))
        .find(is_nonempty_object)
        .unwrap_or_else(|| json!({"type": "object", "properties": {}}))
}

/// The OpenAPI document promises an object, so any other value counts as absent.
fn is_nonempty_object(schema: &Value) -> bool {
    schema.as_object().is_some_and(|fields| !fields.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(stored: Value) -> (Value, Value) {
        let phenotype = Phenotype::from_stored(Some(stored));
        (phenotype.input, phenotype.output)
    }

    #[test]
    fn absent_and_empty_schemas_become_the_empty_object() {
        let empty = json!({"type": "object", "properties": {}});
        for stored in [
            json!({}),
            json!(null),
            json!([1]),
            json!("text"),
            json!({"input": null, "output": {}}),
            json!({"input": "text", "output": [1]}),
        ] {
            assert_eq!(read(stored.clone()), (empty.clone(), empty.clone()), "{stored}");
        }
        assert_eq!(Phenotype::from_stored(None).input, empty);
    }

    #[test]
    fn both_spellings_are_read_and_the_newer_wins() {
        let a = json!({"type": "object", "properties": {"a": {"type": "string"}}});
        let b = json!({"type": "array", "items": {}});
        assert_eq!(
            read(json!({"inputSchema": a, "outputSchema": b, "secret": 1})),
            (a.clone(), b.clone())
        );
        assert_eq!(
            read(json!({"inputSchema": b, "input": a, "output": b, "outputSchema": a})),
            (a.clone(), b.clone())
        );
        assert_eq!(read(json!({"input": {}, "inputSchema": a, "output": b})), (a, b));
    }

    #[test]
    fn irregular_schemas_are_passed_on_unchanged() {
        let odd = json!({"properties": [1, null], "$ref": "#/x", "type": ["object", 3], "é": "\u{1F9EC}"});
        assert_eq!(read(json!({"input": odd, "output": odd})), (odd.clone(), odd));
    }
}
