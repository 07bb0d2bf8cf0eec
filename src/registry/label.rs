//! What people call things: names of keys, handles of users. They are shown in terminals, logs and
//! tables, where a text must not be taken for another or for a command.

/// Longest, in characters.
pub const LONGEST_LABEL: usize = 200;

/// What [`is_label`] asks for, for messages.
pub const LABEL: &str = "1 to 200 characters, not only spaces, without control characters, marks of \
    direction and other invisible characters";

/// Whether this can be a name.
pub fn is_label(text: &str) -> bool {
    // They join or part the letters beside them, as several scripts and emoji need it.
    let is_joiner = |character: char| matches!(character, '\u{200c}' | '\u{200d}');
    let is_seen = |character: char| !character.is_whitespace() && !is_joiner(character);
    text.chars().count() <= LONGEST_LABEL
        && text.chars().any(is_seen)
        && !text.chars().any(is_deceptive)
}

/// Controls, separators of lines, marks of direction, invisible characters and tags: what a
/// terminal would obey, or what shows as something else or not at all.
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
    fn names_are_visible_and_what_they_seem() {
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
