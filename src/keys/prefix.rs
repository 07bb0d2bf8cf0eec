//! Key prefixes: the beginning of a key, which identifies it to people.

use std::str::FromStr;

use thiserror::Error;

use super::token::{PREFIX_CHARS, TYPE_PREFIX};

/// The fewest characters after `gr_`.
const MIN_CHARS: usize = 4;

/// `gr_` and 4 to 8 characters: neither a pattern nor a whole key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyPrefix(String);

/// The text is not a key prefix. It is not part of the message, since people paste whole keys by
/// mistake.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error(
    "a prefix is gr_ and 4 to 8 letters or digits, with or without the gr_; never give the whole \
     key"
)]
pub struct NotAPrefix;

impl KeyPrefix {
    /// The prefix, beginning with `gr_`.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for KeyPrefix {
    type Err = NotAPrefix;

    fn from_str(given: &str) -> Result<Self, NotAPrefix> {
        let rest = given.strip_prefix(TYPE_PREFIX).unwrap_or(given);
        let fits = (MIN_CHARS..=PREFIX_CHARS).contains(&rest.len())
            && rest.bytes().all(|byte| byte.is_ascii_alphanumeric());
        fits.then(|| Self(format!("{TYPE_PREFIX}{rest}"))).ok_or(NotAPrefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_parse_with_or_without_gr_and_whole_keys_do_not() {
        let read = |given: &str| given.parse::<KeyPrefix>().map(|prefix| prefix.0);
        assert_eq!(read("gr_aB3d").as_deref(), Ok("gr_aB3d"));
        assert_eq!(read("aB3dEf7h").as_deref(), Ok("gr_aB3dEf7h"));
        for wrong in ["", "gr_", "gr_abc", "abc", "%%%%", "abcd%", "abcdefghi", "gr_12345678_x"] {
            assert_eq!(read(wrong), Err(NotAPrefix), "{wrong}");
        }
    }
}
