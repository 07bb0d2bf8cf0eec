//! Labels: names of keys and users. They are displayed in terminals, logs and tables, so they must
//! not contain control characters, or characters that make them look like another label.

use super::deceptive::deceptions;

/// Maximum length, in characters.
pub const MAX_LABEL_LENGTH: usize = 200;

/// The requirements of [`is_label`], for error messages.
pub const LABEL: &str = "1 to 200 characters, not only white space, without control, bidirectional and \
    other invisible characters";

/// Whether the text is a valid label.
pub fn is_label(text: &str) -> bool {
    text.chars().count() <= MAX_LABEL_LENGTH
        && text.chars().any(|character| !character.is_whitespace())
        && !deceptions(text).any(|(_, is_deceptive)| is_deceptive)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::is_deceptive;

    #[test]
    fn labels_are_visible_and_contain_no_deceptive_characters() {
        for good in
            ["ci", " spaced  out ", "日本語", "naïve 👩\u{200d}🔬", "ی\u{200c}ک", "%_\\ '\"", "-"]
        {
            assert!(is_label(good), "{good}");
        }
        assert!(is_label(&"🧬".repeat(200)) && !is_label(&"🧬".repeat(201)));
        for bad in ["", " ", "\u{a0}\u{3000}", "\u{200d}", " \u{200c} "] {
            assert!(!is_label(bad), "{bad:?}");
        }
        for bad in [
            '\0',
            '\t',
            '\n',
            '\u{1b}',
            '\u{7f}',
            '\u{9b}',
            '\u{ad}',
            '\u{61c}',
            '\u{200b}',
            '\u{200e}',
            '\u{2028}',
            '\u{202e}',
            '\u{2066}',
            '\u{2069}',
            '\u{feff}',
            '\u{e0041}',
        ] {
            assert!(is_deceptive(bad) && !is_label(&format!("a{bad}b")), "{bad:?}");
        }
    }
}
