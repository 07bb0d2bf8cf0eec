//! Reads a query string as it was sent: its pairs, and the meaning of their escapes.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;

/// Names and values as they were sent. Split by bytes: for strings this short that is faster than
/// a search by `char`, and every parameter walks the query.
pub(super) fn pairs(query: &str) -> impl Iterator<Item = (&str, &str)> {
    let mut rest = Some(query);
    std::iter::from_fn(move || {
        let text = rest?;
        let (pair, after) = cut(text, b'&').map_or((text, None), |(pair, a)| (pair, Some(a)));
        rest = after;
        Some(cut(pair, b'=').unwrap_or((pair, "")))
    })
}

/// The text before and after the first `mark`, an ASCII character.
fn cut(text: &str, mark: u8) -> Option<(&str, &str)> {
    let index = text.as_bytes().iter().position(|byte| *byte == mark)?;
    Some((&text[..index], &text[index + 1..]))
}

/// Whether a name as it was sent, perhaps with escapes, is `name`, which has no space.
pub(super) fn is_named(raw: &str, name: &str) -> bool {
    // An escape is two bytes longer than the character it encodes.
    raw == name || (raw.len() >= name.len() + 2 && decoded(raw).as_deref() == Some(name))
}

fn is_coded(raw: &str) -> bool {
    raw.as_bytes().iter().any(|byte| matches!(byte, b'%' | b'+'))
}

/// Percent-decoded, `+` as a space; `None` for an invalid escape or invalid UTF-8.
pub(super) fn decoded(raw: &str) -> Option<Cow<'_, str>> {
    if !is_coded(raw) {
        return Some(Cow::Borrowed(raw));
    }
    let spaced = raw.replace('+', " ");
    has_only_whole_escapes(&spaced)
        .then(|| {
            percent_decode_str(&spaced).decode_utf8().ok().map(|text| text.into_owned().into())
        })
        .flatten()
}

fn has_only_whole_escapes(text: &str) -> bool {
    text.split('%').skip(1).all(|rest| {
        rest.as_bytes().first_chunk::<2>().is_some_and(|hex| hex.iter().all(u8::is_ascii_hexdigit))
    })
}
