//! The patterns of the documents: Rust's engine finds in them what `tests/sdk/patterns/run` expects of
//! the engines of other languages.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::{Value, json};

fn read(file: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn patterns<'a>(value: &'a Value, found: &mut BTreeSet<&'a str>) {
    match value {
        Value::Object(fields) => {
            found.extend(fields.get("pattern").and_then(Value::as_str));
            fields.values().for_each(|value| patterns(value, found));
        }
        Value::Array(items) => items.iter().for_each(|value| patterns(value, found)),
        _ => {}
    }
}

#[test]
fn every_engine_is_asked_for_every_pattern_of_the_documents() {
    let documents = [read("openapi/openapi.json"), read("openapi/control/openapi.json")];
    let mut found = BTreeSet::new();
    documents.iter().for_each(|document| patterns(document, &mut found));
    let values = read("tests/sdk/patterns/values.json");
    let asked: BTreeSet<_> = values.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(asked, found);
    for pattern in found {
        let matches = |text: &Value| {
            jsonschema::validator_for(&json!({ "pattern": pattern })).unwrap().is_valid(text)
        };
        let texts = |kind: &str| values[pattern][kind].as_array().unwrap();
        assert!(texts("matching").len() > 2 && texts("others").len() > 2, "{pattern}");
        for text in texts("matching") {
            assert!(matches(text), "{pattern} {text}");
        }
        for text in texts("others") {
            assert!(!matches(text), "{pattern} {text}");
        }
    }
}

#[test]
fn patterns_have_only_what_all_engines_understand_alike() {
    for pattern in read("tests/sdk/patterns/values.json").as_object().unwrap().keys() {
        let inner = pattern.strip_suffix('$').unwrap_or(pattern);
        for differing in ["$", "\\u", "\\d", "\\w", "\\s", "\\p", "\\b", "(?"] {
            assert!(!inner.contains(differing), "{pattern}: {differing}");
        }
    }
}

/// Before a line feed at the end, `$` matches in some engines only.
#[test]
fn a_line_feed_is_forbidden_where_a_pattern_has_an_end() {
    fn check(value: &Value) {
        if let Some(fields) = value.as_object()
            && fields.get("pattern").and_then(Value::as_str).is_some_and(|one| one.ends_with('$'))
        {
            let not = json!({ "not": fields["not"] });
            assert!(!jsonschema::is_valid(&not, &json!("a\n")), "{value}");
        }
        let inner = value.as_object().map(|fields| fields.values().collect::<Vec<_>>());
        let items = value.as_array().map(|items| items.iter().collect());
        inner.or(items).unwrap_or_default().into_iter().for_each(check);
    }
    for file in ["openapi/openapi.json", "openapi/control/openapi.json"] {
        check(&read(file));
    }
}
