//! Labels: names of keys and users. They are displayed in terminals, logs and tables, so they must
//! not contain control characters, or characters that make them look like another label.

/// Maximum length, in characters.
pub const MAX_LABEL_LENGTH: usize = 200;

/// The requirements of [`is_label`], for error messages.
pub const LABEL: &str = "1 to 200 characters, not only spaces, without control characters, marks of \
    direction and other invisible characters";

/// Whether the text is a valid label.
pub fn is_label(text: &str) -> bool {
    // Several scripts and emoji need these to join or separate letters.
    let is_joiner = |character: char| matches!(character, '\u{200c}' | '\u{200d}');
    let is_visible = |character: char| !character.is_whitespace() && !is_joiner(character);
    text.chars().count() <= MAX_LABEL_LENGTH
        && text.chars().any(is_visible)
        && !text.chars().any(is_deceptive)
}

/// Whether a character is a control, line separator, direction mark, invisible character or tag. A
/// terminal interprets these, displays them as something else, or not at all.
pub fn is_deceptive(character: char) -> bool {
    character.is_control()
        || matches!(character,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}' | '\u{200e}' | '\u{200f}'
            | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

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
