//! JSON that is handed on as it is stored, whatever the size of its numbers and the depth of its nesting.

use std::borrow::Cow;
use std::collections::HashMap;

use serde::de::Deserializer;
use serde::ser::{Error, Serializer};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

/// A JSON text without whitespace between its tokens.
#[derive(Debug, Clone)]
pub struct JsonText(Cow<'static, str>);

impl JsonText {
    /// A text that is known to be compact JSON.
    pub(super) const fn from_static(text: &'static str) -> Self {
        Self(Cow::Borrowed(text))
    }

    /// Parses a text.
    ///
    /// # Errors
    /// It is not JSON.
    pub fn parse(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text)
    }

    /// The members of an object, the last one of each name; `None` if it is another value.
    pub(super) fn members(&self) -> Option<HashMap<String, Self>> {
        serde_json::from_str(&self.0).ok()
    }

    /// Whether it is an object with members.
    pub(super) fn is_nonempty_object(&self) -> bool {
        self.0.starts_with('{') && self.0 != "{}"
    }
}

impl From<Value> for JsonText {
    fn from(value: Value) -> Self {
        Self(value.to_string().into())
    }
}

/// Compares values, whatever the order of their members. Only equal texts are equal if they are beyond
/// what is compared.
impl PartialEq for JsonText {
    fn eq(&self, other: &Self) -> bool {
        let value = |text: &Self| serde_json::from_str::<Value>(&text.0).ok();
        self.0 == other.0 || value(self).is_some_and(|own| value(other) == Some(own))
    }
}

impl<'de> Deserialize<'de> for JsonText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Box::<RawValue>::deserialize(deserializer)?;
        Ok(Self(compact(text.get()).into()))
    }
}

impl Serialize for JsonText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serde_json::from_str::<&RawValue>(&self.0).map_err(Error::custom)?.serialize(serializer)
    }
}

/// The JSON without whitespace between its tokens.
fn compact(json: &str) -> String {
    let (mut in_string, mut is_escaped) = (false, false);
    let is_kept = |c: &char| {
        let keep = in_string || !matches!(c, ' ' | '\t' | '\r' | '\n');
        in_string ^= *c == '"' && !is_escaped;
        is_escaped = in_string && *c == '\\' && !is_escaped;
        keep
    };
    json.chars().filter(is_kept).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(text: &str) -> String {
        let parsed = JsonText::parse(text).expect(text);
        serde_json::to_string(&parsed).expect("JSON")
    }

    #[test]
    fn numbers_strings_and_depth_are_handed_on_unchanged() {
        let digits = "123456789012345678901234567890";
        for text in [digits, "1e400", "-0.10", "1E-999999", r#""\" \\ \u0000 é""#, "[true,null]"] {
            assert_eq!(written(text), text);
        }
        let deep = format!("{}1e400{}", r#"{"a":["#.repeat(500), "]}".repeat(500));
        assert_eq!(written(&deep), deep);
        assert!(JsonText::parse("{").is_err() && JsonText::parse("[01]").is_err());
    }

    #[test]
    fn only_whitespace_between_tokens_is_removed() {
        let text = "{ \"a b\\\" c\\\\\" :\n[ 1 ,\t\" \" ] }\r\n";
        assert_eq!(written(text), r#"{"a b\" c\\":[1," "]}"#);
    }

    #[test]
    fn values_are_equal_in_any_order() {
        let parse = |text| JsonText::parse(text).expect("JSON");
        assert_eq!(parse(r#"{"a": 1, "b": 2.50}"#), parse(r#"{"b": 2.5, "a": 1}"#));
        assert_eq!(parse("1e400"), parse("1e400 "));
        assert_ne!(parse("1e400"), parse("1e401"));
    }
}
