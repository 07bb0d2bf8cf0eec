//! Text from elsewhere, made fit for a terminal and for messages.

use std::fmt::Write;

use crate::registry::is_deceptive;

/// Beyond this, in characters, a text from elsewhere is cut.
const LONGEST: usize = 300;

/// Words this long in a message are nobody's wording: they may be a key or a token.
const SECRET_LENGTH: usize = 24;

/// Text from elsewhere without anything that a terminal would obey or that would show as something
/// else: control characters and marks of direction become escapes. Cut to 300 characters.
pub(in crate::cli) fn sanitize(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for (at, character) in text.chars().enumerate() {
        if at == LONGEST {
            shown.push('…');
            break;
        }
        match character {
            '\\' => shown.push_str("\\\\"),
            _ if is_deceptive(character) => shown.extend(character.escape_default()),
            _ => shown.push(character),
        }
    }
    shown
}

/// The same for a message of several lines, of any length, whose own backslashes stay as they are.
/// `None` where there is nothing to be escaped.
pub(in crate::cli) fn sanitize_lines(message: &str) -> Option<String> {
    let harms = |character: char| is_deceptive(character) && character != '\n';
    message.contains(harms).then(|| {
        let mut shown = String::with_capacity(message.len());
        for character in message.chars() {
            if harms(character) {
                shown.extend(character.escape_default());
            } else {
                shown.push(character);
            }
        }
        shown
    })
}

/// JSON with the same characters as its own escapes: it means what it meant.
pub(in crate::cli) fn sanitize_json(json: &str) -> String {
    let mut shown = String::with_capacity(json.len());
    for character in json.chars() {
        if is_deceptive(character) {
            // None of them is beyond the basic plane but the tags.
            for unit in character.encode_utf16(&mut [0; 2]) {
                // Writing to a string can't fail.
                let _ = write!(shown, "\\u{unit:04x}");
            }
        } else {
            shown.push(character);
        }
    }
    shown
}

/// A message that may repeat what somebody typed, without what looks like a key or a token.
pub(in crate::cli) fn without_secrets(message: &str) -> String {
    let is_word = |character: char| character.is_ascii_alphanumeric() || character == '_';
    let mut shown = String::with_capacity(message.len());
    let mut rest = message;
    while !rest.is_empty() {
        let length = rest.find(|character| !is_word(character)).unwrap_or(rest.len());
        let (word, after) = rest.split_at(length);
        shown.push_str(&cut_secret(word));
        let between = after.find(is_word).unwrap_or(after.len());
        shown.push_str(&after[..between]);
        rest = &after[between..];
    }
    shown
}

fn cut_secret(word: &str) -> std::borrow::Cow<'_, str> {
    let branded = |type_prefix: &str, kept: usize| {
        let at = word.find(type_prefix)? + type_prefix.len() + kept;
        (word.len() > at).then(|| format!("{}…", &word[..at]).into())
    };
    let cut = branded("grt_", 0).or_else(|| branded("gr_", 8));
    cut.unwrap_or_else(|| if word.len() >= SECRET_LENGTH { "…".into() } else { word.into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_escaped() {
        assert_eq!(sanitize("a\u{1b}[31mb\u{9b}c\n\u{202e}d"), r"a\u{1b}[31mb\u{9b}c\n\u{202e}d");
        assert_eq!(sanitize(r"\u{1b}"), r"\\u{1b}", "not taken for an escaped character");
        assert_eq!(sanitize("naïve 日本語 👩‍🔬 \"'"), "naïve 日本語 👩‍🔬 \"'");
        assert_eq!(sanitize(&"x".repeat(1000)).chars().count(), LONGEST + 1);
    }

    #[test]
    fn json_means_the_same_without_harmful_characters() {
        let name = "a\u{1b}\u{9b}\u{7f}\u{202e}\u{e0041}日本 \\ \"";
        let json = serde_json::to_string(name).expect("JSON");
        let shown = sanitize_json(&json);
        assert!(!shown.contains(is_deceptive), "{shown:?}");
        assert_eq!(serde_json::from_str::<String>(&shown).expect("JSON"), name);
    }

    #[test]
    fn messages_do_not_repeat_keys_and_tokens() {
        let key = "gr_aB3dEf7h_0123456789abcdefghijABCDEFGHIJKLmnopqr";
        let said = without_secrets(&format!("invalid value '{key}' for '--x'; grt_0aB1 eyJ0.e30"));
        assert_eq!(said, "invalid value 'gr_aB3dEf7h…' for '--x'; grt_… eyJ0.e30");
        let token = format!("eyJ{0}.{0}-{0}", "a".repeat(40));
        assert_eq!(without_secrets(&format!("unexpected '{token}'")), "unexpected '….…-…'");
        let sanitize = "unexpected argument '--prefix' found: gr_aB3dEf7h, gene_registry";
        assert_eq!(without_secrets(sanitize), sanitize);
    }
}
