//! The beginning of a key, by which people name it.

use std::str::FromStr;

use thiserror::Error;

/// At least this many characters of the key itself, after the brand.
const MIN_CHARS: usize = 4;
const MAX_CHARS: usize = 8;
const BRAND: &str = "gr_";

/// `gr_` and 4 to 8 characters: neither a pattern nor a whole key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyPrefix(String);

/// The text is no beginning of a key, or too long a one. It is not repeated: people paste whole
/// keys by mistake.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error(
    "a prefix is gr_ and 4 to 8 letters or digits, with or without the gr_; never give the whole \
     key"
)]
pub struct NotAPrefix;

impl KeyPrefix {
    /// With the brand.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for KeyPrefix {
    type Err = NotAPrefix;

    fn from_str(given: &str) -> Result<Self, NotAPrefix> {
        let own = given.strip_prefix(BRAND).unwrap_or(given);
        let fits = (MIN_CHARS..=MAX_CHARS).contains(&own.len())
            && own.bytes().all(|byte| byte.is_ascii_alphanumeric());
        fits.then(|| Self(format!("{BRAND}{own}"))).ok_or(NotAPrefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_are_taken_with_or_without_the_brand_and_never_whole_keys() {
        let read = |given: &str| given.parse::<KeyPrefix>().map(|prefix| prefix.0);
        assert_eq!(read("gr_aB3d").as_deref(), Ok("gr_aB3d"));
        assert_eq!(read("aB3dEf7h").as_deref(), Ok("gr_aB3dEf7h"));
        for wrong in ["", "gr_", "gr_abc", "abc", "%%%%", "abcd%", "abcdefghi", "gr_12345678_x"] {
            assert_eq!(read(wrong), Err(NotAPrefix), "{wrong}");
        }
    }
}
