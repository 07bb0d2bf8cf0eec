//! Deceptive characters: controls, direction marks and invisible characters. A terminal or a page
//! interprets them, displays other text because of them, or does not display them at all.

/// Whether a character is a control, a format character, a line or paragraph separator, a mark of
/// direction, or one that is invisible by default: Unicode 16, general categories `Cc`, `Cf`, `Zl`
/// and `Zp`, and properties `Bidi_Control` and `Default_Ignorable_Code_Point`.
pub fn is_deceptive(character: char) -> bool {
    character.is_control()
        || matches!(character,
            '\u{ad}' | '\u{34f}' | '\u{600}'..='\u{605}' | '\u{61c}' | '\u{6dd}' | '\u{70f}'
            | '\u{890}'..='\u{891}' | '\u{8e2}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}'
            | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{110bd}' | '\u{110cd}'
            | '\u{13430}'..='\u{1343f}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}')
}

/// Each character of a text, and whether it is deceptive where it stands. Scripts and emoji need
/// joiners and variation selectors: one of these is not deceptive after a visible character that is
/// not ASCII, and neither is a joiner after a variation selector.
pub fn deceptions(text: &str) -> impl Iterator<Item = (char, bool)> {
    // Whether a variation selector, and a joiner, has an effect after the last character.
    let (mut selectable, mut joinable) = (false, false);
    text.chars().map(move |character| {
        let is_selector = is_variation_selector(character);
        let is_needed = (is_selector && selectable) || (is_joiner(character) && joinable);
        let is_hidden = is_deceptive(character);
        selectable = !is_hidden && !character.is_ascii() && !character.is_whitespace();
        joinable = selectable || (is_selector && is_needed);
        (character, is_hidden && !is_needed)
    })
}

fn is_joiner(character: char) -> bool {
    matches!(character, '\u{200c}' | '\u{200d}')
}

fn is_variation_selector(character: char) -> bool {
    matches!(character, '\u{180b}'..='\u{180d}' | '\u{180f}' | '\u{fe00}'..='\u{fe0f}'
        | '\u{e0100}'..='\u{e01ef}')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deceives(text: &str) -> bool {
        deceptions(text).any(|(_, is_deceptive)| is_deceptive)
    }

    #[test]
    fn controls_marks_of_direction_and_invisible_characters_are_deceptive() {
        for first_and_last in [
            ['\0', '\u{1f}'],
            ['\u{7f}', '\u{9f}'],
            ['\u{ad}', '\u{61c}'],
            ['\u{34f}', '\u{180e}'],
            ['\u{115f}', '\u{3164}'],
            ['\u{200b}', '\u{200f}'],
            ['\u{2028}', '\u{202e}'],
            ['\u{2060}', '\u{206f}'],
            ['\u{fe00}', '\u{fe0f}'],
            ['\u{feff}', '\u{ffa0}'],
            ['\u{1d173}', '\u{1d17a}'],
            ['\u{e0001}', '\u{e01ef}'],
        ] {
            for character in first_and_last {
                assert!(is_deceptive(character), "{character:?}");
                assert!(deceives(&format!("a{character}b")), "{character:?}");
            }
        }
        let visible = "a~ \u{a0}\u{a1}é\u{300}ß\u{5d0}\u{627}\u{1100}\u{2027}\u{202f}\u{205f}語\u{ac00}\
            \u{3000}\u{fffd}👩🏽\u{10ffff}";
        assert!(!visible.contains(is_deceptive) && !deceives(visible));
    }

    #[test]
    fn joiners_and_selectors_are_deceptive_where_they_have_no_effect() {
        for needed in ["ی\u{200c}ک", "👩\u{200d}🔬", "❤\u{fe0f}\u{200d}🔥", "葛\u{e0100}城"]
        {
            assert!(!deceives(needed), "{needed:?}");
        }
        for hidden in [
            "\u{200d}",
            "a\u{200d}b",
            "1\u{fe0f}",
            "👩\u{200d}\u{200d}🔬",
            "👩\u{fe0f}\u{fe0f}",
            "👩\u{200d}\u{fe0f}",
            "語 \u{200c}",
            "a\u{fe0f}\u{200d}🔥",
            "🧬\u{e0100}\u{e0101}\u{e0102}",
        ] {
            assert!(deceives(hidden), "{hidden:?}");
        }
    }
}
