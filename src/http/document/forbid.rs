//! Texts that are refused because of characters that they have.

use serde_json::{Value, json};

/// Control characters.
pub(crate) const CONTROLS: &str = r"[\x00-\x1F\x7F-\x9F]";

/// Adds to the schema of a text that it must not match `pattern` anywhere.
///
/// Forbidden texts are described, not allowed ones, because a pattern for the latter ends in `$`, which
/// also matches before a line feed at the end in Python, PCRE and Java, but not in ECMAScript and RE2.
/// Escapes have the form `\xHH`, which all of these engines understand.
pub(crate) fn forbid(schema: &mut Value, pattern: &str) {
    schema["not"] = json!({ "pattern": pattern });
}
