//! The scopes of API keys: the names of what a key may do.

/// The scope that every operation requires, and the only one at present.
pub const READ_SCOPE: &str = "read";

/// The form of a scope, for messages.
pub const SCOPE: &str = "1 to 64 of the characters a-z, 0-9, : . _ -";

/// Whether `text` is a valid scope: [`SCOPE`].
pub fn is_scope(text: &str) -> bool {
    let allowed =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b":._-".contains(&byte);
    (1..=64).contains(&text.len()) && text.bytes().all(allowed)
}
