//! The two schemas of a gene, extracted from the stored object.

use std::collections::HashMap;

use serde::Serialize;

use super::json_text::JsonText;

/// What an absent or empty schema is shown as.
const EMPTY: JsonText = JsonText::from_static(r#"{"type":"object","properties":{}}"#);

/// The input and output of a gene, each described in the style of JSON Schema. Stored schemas are
/// passed on unchanged, even if they are irregular.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Phenotype {
    /// Description of the input.
    pub input: JsonText,
    /// Description of the output.
    pub output: JsonText,
}

impl Phenotype {
    /// Reads a stored phenotype. `input` and `output` take precedence over the older keys
    /// `inputSchema` and `outputSchema`; other keys are dropped. An absent or empty schema becomes
    /// `{"type":"object","properties":{}}`.
    pub fn from_stored(stored: Option<&JsonText>) -> Self {
        let mut members = stored.and_then(JsonText::members).unwrap_or_default();
        Self {
            input: schema(&mut members, "input", "inputSchema"),
            output: schema(&mut members, "output", "outputSchema"),
        }
    }
}

/// The OpenAPI document promises an object, so any other value counts as absent.
fn schema(members: &mut HashMap<String, JsonText>, name: &str, older_name: &str) -> JsonText {
    let mut given = [name, older_name].into_iter().filter_map(|key| members.remove(key));
    given.find(JsonText::is_nonempty_object).unwrap_or(EMPTY)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read(stored: Value) -> (Value, Value) {
        let phenotype = Phenotype::from_stored(Some(&stored.into()));
        let value = |text| serde_json::to_value(text).expect("JSON");
        (value(phenotype.input), value(phenotype.output))
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
        assert_eq!(Phenotype::from_stored(None).input, empty.into());
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
