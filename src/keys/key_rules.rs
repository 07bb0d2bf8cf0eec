//! What a key may be like: the same for the server, which refuses the rest, and for the command
//! line, which asks for nothing that would be refused.

use crate::registry::Timestamp;

/// What [`is_scope`] asks for, for messages.
pub(crate) const SCOPE: &str = "1 to 64 of the characters a-z, 0-9, : . _ -";

/// Scopes of one key.
pub(crate) const MOST_SCOPES: usize = 16;

/// How long a key that is rotated may go on, in seconds: 365 days.
pub(crate) const LONGEST_OVERLAP_S: u32 = 365 * 86_400;

/// Keys end before this, at the end of the year 9999: later times can't be stored and shown
/// everywhere.
pub(crate) const LAST_END: Timestamp = Timestamp::constant(253_402_128_000, 0);

/// Whether this can be a scope.
pub(crate) fn is_scope(text: &str) -> bool {
    let allowed =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b":._-".contains(&byte);
    (1..=64).contains(&text.len()) && text.bytes().all(allowed)
}
