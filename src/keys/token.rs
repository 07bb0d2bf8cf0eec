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

use crate::upstream::KeyHash;

const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const BRAND: &str = "gr_";
const PREFIX_CHARS: usize = 8;
const SECRET_CHARS: usize = 32;
const CHECK_CHARS: usize = 6;
const PREFIX_LENGTH: usize = BRAND.len() + PREFIX_CHARS;
const LENGTH: usize = PREFIX_LENGTH + 1 + SECRET_CHARS + CHECK_CHARS;

/// A whole API key in plain text. Never stored, never logged; wiped when dropped.
#[derive(Clone, PartialEq, Eq)]
pub struct ApiKey(String);

/// The text has not the form of a key, or its check characters are wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("not an API key: expected gr_ + 8 characters + _ + 38 characters with a right check")]
pub struct MalformedKey;

/// The operating system has no randomness to give.
#[derive(Debug, Error)]
#[error("the operating system gave no randomness: {0}")]
pub struct NoRandomness(getrandom::Error);

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
        text.extend(check.iter().copied().map(char::from));
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

fn check_characters(body: &[u8]) -> [u8; CHECK_CHARS] {
    let mut rest = crc32fast::hash(body) as usize;
    let mut check = [b'0'; CHECK_CHARS];
    for digit in check.iter_mut().rev() {
        *digit = DIGITS[rest % DIGITS.len()];
        rest /= DIGITS.len();
    }
    check
}

fn push_random_digits(text: &mut String, count: usize) -> Result<(), NoRandomness> {
    // Bytes beyond the last whole multiple of 62 are thrown away, so every digit is as likely.
    const FAIR: usize = 256 - 256 % DIGITS.len();
    let wanted = text.len() + count;
    let mut bytes = [0; 64];
    while text.len() < wanted {
        getrandom::fill(&mut bytes).map_err(NoRandomness)?;
        let digits = bytes.iter().map(|byte| usize::from(*byte)).filter(|byte| *byte < FAIR);
        let missing = wanted - text.len();
        text.extend(digits.map(|byte| char::from(DIGITS[byte % DIGITS.len()])).take(missing));
    }
    bytes.zeroize();
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// CRC-32 (IEEE 802.3) bit by bit, as the standard defines it.
    fn crc32_by_definition(bytes: &[u8]) -> u32 {
        let mut crc = u32::MAX;
        for byte in bytes {
            crc ^= u32::from(*byte);
            for _ in 0..8 {
                crc = if crc & 1 == 1 { (crc >> 1) ^ 0xEDB8_8320 } else { crc >> 1 };
            }
        }
        !crc
    }

    #[test]
    fn the_check_is_crc32_in_base_62() {
        assert_eq!(crc32_by_definition(b"123456789"), 0xCBF4_3926, "the check value of CRC-32");
        // 0xCBF43926 = 3*62^5 + 45*62^4 + 35*62^3 + 27*62^2 + 22*62 + 14.
        let digits = [3, 45, 35, 27, 22, 14].map(|at: usize| DIGITS[at]);
        let value = [3, 45, 35, 27, 22, 14].iter().fold(0_u64, |sum, digit| sum * 62 + digit);
        assert_eq!(value, 0xCBF4_3926);
        assert_eq!(check_characters(b"123456789"), digits);
    }

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
