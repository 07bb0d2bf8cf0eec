//! Makes text from other sources safe to show on a terminal, and keeps secrets out of messages.

use crate::registry::deceptions;

/// Longer text is truncated, so that a hostile server does not flood the terminal. In characters; the
/// messages of the service itself are shorter.
const MAX_CHARACTERS: usize = 2_000;

/// A word of this length in a message may be a key or a token.
const SECRET_LENGTH: usize = 24;

/// Escapes control characters, direction marks and invisible characters, which could control the
/// terminal or disguise the text. Truncates to 2,000 characters.
pub(in crate::cli) fn sanitize(text: &str) -> String {
    let is_escaped = |character: char, is_deceptive: bool| is_deceptive || character == '\\';
    match text.char_indices().nth(MAX_CHARACTERS) {
        Some((end, _)) => escape(&text[..end], is_escaped, as_code_point) + "…",
        None => escape(text, is_escaped, as_code_point),
    }
}

/// Escapes the same characters in a message of several lines, of any length, but not backslashes.
pub(in crate::cli) fn sanitize_lines(message: &str) -> String {
    escape(message, |character, is_deceptive| is_deceptive && character != '\n', as_code_point)
}

/// Escapes the same characters as JSON does, which keeps the meaning of the JSON.
pub(in crate::cli) fn sanitize_json(json: &str) -> String {
    // Some characters are outside the basic plane and need two units.
    let as_utf16 = |character: char| {
        let mut units = [0; 2];
        character.encode_utf16(&mut units).iter().map(|unit| format!("\\u{unit:04x}")).collect()
    };
    escape(json, |_, is_deceptive| is_deceptive, as_utf16)
}

/// Escapes a character as in a string of Rust: `\u{202e}`, `\n`.
fn as_code_point(character: char) -> String {
    character.escape_default().to_string()
}

fn escape(
    text: &str,
    is_escaped: impl Fn(char, bool) -> bool,
    escaped: impl Fn(char) -> String,
) -> String {
    let mut shown = String::with_capacity(text.len());
    for (character, is_deceptive) in deceptions(text) {
        if is_escaped(character, is_deceptive) {
            shown.push_str(&escaped(character));
        } else {
            shown.push(character);
        }
    }
    shown
}

/// Removes what looks like a key or a token from a message that may repeat user input.
pub(in crate::cli) fn without_secrets(message: &str) -> String {
    let is_between = |character: char| !character.is_ascii_alphanumeric() && character != '_';
    let mut shown = String::with_capacity(message.len());
    for part in message.split_inclusive(is_between) {
        let word = part.trim_end_matches(is_between);
        shown.push_str(&redact(word));
        shown.push_str(&part[word.len()..]);
    }
    shown
}

fn redact(word: &str) -> std::borrow::Cow<'_, str> {
    let cut_after = |type_prefix: &str, kept: usize| {
        let end = word.find(type_prefix)? + type_prefix.len() + kept;
        (word.len() > end).then(|| format!("{}…", &word[..end]).into())
    };
    let cut = cut_after("grt_", 0).or_else(|| cut_after("gr_", 8));
    cut.unwrap_or_else(|| if word.len() >= SECRET_LENGTH { "…".into() } else { word.into() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::is_deceptive;

    #[test]
    fn characters_that_control_a_terminal_are_escaped() {
        assert_eq!(sanitize("a\u{1b}[31mb\u{9b}c\n\u{202e}d"), r"a\u{1b}[31mb\u{9b}c\n\u{202e}d");
        assert_eq!(sanitize("a\u{200d}b\u{3164}\u{e0041}"), r"a\u{200d}b\u{3164}\u{e0041}");
        assert_eq!(sanitize(r"\u{1b}"), r"\\u{1b}", "not mistaken for an escaped character");
        assert_eq!(sanitize("naïve 日本語 👩‍🔬 \"'"), "naïve 日本語 👩‍🔬 \"'");
        assert_eq!(sanitize(&"é".repeat(2_000)), "é".repeat(2_000));
        assert_eq!(sanitize(&"é".repeat(9_000)), "é".repeat(2_000) + "…");
    }

    #[test]
    fn json_means_the_same_without_harmful_characters() {
        let name = "a\u{1b}\u{9b}\u{7f}\u{202e}\u{200d}\u{e0041}日本 \\ \"";
        let json = serde_json::to_string(name).expect("JSON");
        let shown = sanitize_json(&json);
        assert!(!shown.contains(is_deceptive), "{shown:?}");
        assert_eq!(serde_json::from_str::<String>(&shown).expect("JSON"), name);
    }

    #[test]
    fn messages_do_not_repeat_keys_and_tokens() {
        let key = "gr_aB3dEf7h_0123456789abcdefghijABCDEFGHIJKLmnopqr";
        let message =
            without_secrets(&format!("invalid value '{key}' for '--x'; grt_0aB1 eyJ0.e30"));
        assert_eq!(message, "invalid value 'gr_aB3dEf7h…' for '--x'; grt_… eyJ0.e30");
        let token = format!("eyJ{0}.{0}-{0}", "a".repeat(40));
        assert_eq!(without_secrets(&format!("unexpected '{token}'")), "unexpected '….…-…'");
        let harmless = "unexpected argument '--prefix' found: gr_aB3dEf7h, gene_registry";
        assert_eq!(without_secrets(harmless), harmless);
    }
}
