//! The form of an API key.
//!
//! `gr_` + 8 characters + `_` + 32 characters + 6 check characters, all of `0-9A-Za-z`. The
//! check is CRC-32 (IEEE) over everything before it, in base 62 with digits in that order, most
//! significant first, padded with `0`: a mistyped key is refused without any look-up, and
//! secret scanners can tell a key from its looks.

use std::fmt;
use std::str::FromStr;

use secrecy::zeroize::Zeroize;
use sha2::{Digest, Sha256};
use thiserror::Error;

use super::base62::{CHECK_CHARS, NoRandomness, check_characters, push_random_digits};
use crate::upstream::KeyHash;

const BRAND: &str = "gr_";
const PREFIX_CHARS: usize = 8;
const SECRET_CHARS: usize = 32;
const PREFIX_LENGTH: usize = BRAND.len() + PREFIX_CHARS;
const LENGTH: usize = PREFIX_LENGTH + 1 + SECRET_CHARS + CHECK_CHARS;

/// A whole API key in plain text. Never stored, never logged; wiped when dropped.
#[derive(Clone, PartialEq, Eq)]
pub struct ApiKey(String);

/// The text has not the form of a key, or its check characters are wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("not an API key: expected gr_ + 8 characters + _ + 38 characters with a right check")]
pub struct MalformedKey;

impl ApiKey {
    /// A new key, from the operating system's randomness.
    ///
    /// # Errors
    /// [`NoRandomness`].
    pub fn generate() -> Result<Self, NoRandomness> {
        let mut text = String::with_capacity(LENGTH);
        text.push_str(BRAND);
        push_random_digits(&mut text, PREFIX_CHARS)?;
        text.push('_');
        push_random_digits(&mut text, SECRET_CHARS)?;
        let check = check_characters(text.as_bytes());
        text.extend(check.map(char::from));
        Ok(Self(text))
    }

    /// The plain key. To be shown once, to the person it is for.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// The beginning that people know the key by: `gr_` and 8 characters.
    pub fn prefix(&self) -> &str {
        &self.0[..PREFIX_LENGTH]
    }

    /// What is stored of it.
    pub fn hash(&self) -> KeyHash {
        hash(self.0.as_bytes())
    }
}

/// What is stored of the key that `text` is, if it has the form of one. Unlike a parsed
/// [`ApiKey`] it takes no copy that would have to be wiped: for the way of every request.
pub(super) fn hash_if_key(text: &[u8]) -> Option<KeyHash> {
    is_key(text).then(|| hash(text))
}

/// What is stored of a key: SHA-256 of its text.
pub(super) fn hash(key: &[u8]) -> KeyHash {
    KeyHash(Sha256::digest(key).into())
}

impl FromStr for ApiKey {
    type Err = MalformedKey;

    fn from_str(text: &str) -> Result<Self, MalformedKey> {
        if is_key(text.as_bytes()) { Ok(Self(text.to_owned())) } else { Err(MalformedKey) }
    }
}

fn is_key(text: &[u8]) -> bool {
    let has_form = text.len() == LENGTH
        && text.starts_with(BRAND.as_bytes())
        && text[PREFIX_LENGTH] == b'_'
        && text[BRAND.len()..PREFIX_LENGTH].iter().all(u8::is_ascii_alphanumeric)
        && text[PREFIX_LENGTH + 1..].iter().all(u8::is_ascii_alphanumeric);
    let (body, check) = text.split_at(text.len().saturating_sub(CHECK_CHARS));
    has_form && check_characters(body) == check
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ApiKey(…)")
    }
}

impl Drop for ApiKey {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::keys::base62::DIGITS;

    #[test]
    fn generated_keys_are_read_back_and_differ() {
        let (a, b) = (ApiKey::generate().expect("a key"), ApiKey::generate().expect("a key"));
        assert_ne!(a.prefix(), b.prefix());
        assert_ne!(a.hash(), b.hash());
        assert_eq!(a.expose().parse::<ApiKey>(), Ok(a.clone()));
        assert!(hash_if_key(a.expose().as_bytes()) == Some(a.hash()));
        assert_eq!(a.expose().len(), 3 + 8 + 1 + 32 + 6);
        assert_eq!(format!("{a:?}"), "ApiKey(…)");
    }

    proptest! {
        #[test]
        fn a_key_with_one_character_changed_is_refused(at in 0..LENGTH, digit in 0..62_usize) {
            let key = ApiKey::generate().expect("a key");
            let mut bytes = key.expose().as_bytes().to_vec();
            prop_assume!(bytes[at] != DIGITS[digit]);
            bytes[at] = DIGITS[digit];
            let text = String::from_utf8(bytes).expect("ASCII");
            prop_assert_eq!(text.parse::<ApiKey>(), Err(MalformedKey));
            prop_assert!(hash_if_key(text.as_bytes()).is_none());
        }

        #[test]
        fn other_text_is_refused(text in ".{0,60}") {
            prop_assert_eq!(text.parse::<ApiKey>(), Err(MalformedKey));
            prop_assert!(hash_if_key(text.as_bytes()).is_none());
        }
    }
}
