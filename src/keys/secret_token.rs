//! The format of API keys and login tokens: a type prefix, parts of random digits separated by `_`,
//! and check characters.
//!
//! The digits are `0-9A-Za-z`. The check is CRC-32 (IEEE) over everything before it, in base 62
//! with digits in that order, most significant first, padded with `0`. So a mistyped token is
//! refused without a lookup, and secret scanners can recognize a token by its format.

use std::fmt;

use secrecy::zeroize::Zeroize;
use sha2::{Digest, Sha256};
use thiserror::Error;

const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// The number of check characters.
const CHECK_CHARS: usize = 6;

/// The operating system provided no random bytes.
#[derive(Debug, Error)]
#[error("the operating system provided no random bytes: {0}")]
pub struct NoRandomness(getrandom::Error);

/// The format of one type of token.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TokenFormat {
    pub(crate) type_prefix: &'static str,
    /// The number of digits of each part.
    pub(crate) parts: &'static [usize],
}

impl TokenFormat {
    /// A new token, from the operating system's random bytes.
    pub(crate) fn generate(&self) -> Result<SecretToken, NoRandomness> {
        // A `SecretToken` from the start, so that it is wiped, and with its capacity, so that
        // growing leaves no copy.
        let mut token = SecretToken(String::with_capacity(self.length()));
        token.0.push_str(self.type_prefix);
        for (index, count) in self.parts.iter().enumerate() {
            if index > 0 {
                token.0.push('_');
            }
            push_random_digits(&mut token.0, *count)?;
        }
        let check = check_characters(token.0.as_bytes());
        token.0.extend(check.map(char::from));
        Ok(token)
    }

    /// The token, if `text` has this format and its check is correct.
    pub(crate) fn read(&self, text: &str) -> Option<SecretToken> {
        self.fits(text.as_bytes()).then(|| SecretToken(text.to_owned()))
    }

    /// Whether `text` has this format and its check is correct.
    pub(crate) fn fits(&self, text: &[u8]) -> bool {
        let Some((body, check)) = text.split_last_chunk() else { return false };
        let Some(parts) = body.strip_prefix(self.type_prefix.as_bytes()) else { return false };
        let lengths = parts.split(|byte| *byte == b'_').map(<[u8]>::len);
        lengths.eq(self.parts.iter().copied())
            && parts.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
            && check_characters(body) == *check
    }

    /// The length in characters.
    fn length(&self) -> usize {
        let separators = self.parts.len().saturating_sub(1);
        self.type_prefix.len() + self.parts.iter().sum::<usize>() + separators + CHECK_CHARS
    }
}

/// A token in plain text. Never stored, never logged; wiped when dropped.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct SecretToken(String);

impl SecretToken {
    /// The plain text. To be shown once, to its owner.
    pub(crate) fn expose(&self) -> &str {
        &self.0
    }

    /// The hash that is stored instead of it: SHA-256 of the text.
    pub(crate) fn hash(&self) -> [u8; 32] {
        Sha256::digest(self.0.as_bytes()).into()
    }
}

impl fmt::Debug for SecretToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

impl Drop for SecretToken {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

/// CRC-32 (IEEE) in base 62, most significant digit first, padded with `0`.
fn check_characters(body: &[u8]) -> [u8; CHECK_CHARS] {
    let mut rest = crc32fast::hash(body) as usize;
    let mut check = [b'0'; CHECK_CHARS];
    for digit in check.iter_mut().rev() {
        *digit = DIGITS[rest % DIGITS.len()];
        rest /= DIGITS.len();
    }
    check
}

/// Appends `count` digits, all equally likely, from the operating system's random bytes.
fn push_random_digits(text: &mut String, count: usize) -> Result<(), NoRandomness> {
    // Bytes from the last multiple of 62 on are discarded, so all digits are equally likely.
    const FAIR: usize = 256 - 256 % DIGITS.len();
    let length = text.len() + count;
    let mut bytes = [0; 64];
    while text.len() < length {
        getrandom::fill(&mut bytes).map_err(NoRandomness)?;
        let digits = bytes.iter().map(|byte| usize::from(*byte)).filter(|byte| *byte < FAIR);
        let missing = length - text.len();
        text.extend(digits.map(|byte| char::from(DIGITS[byte % DIGITS.len()])).take(missing));
    }
    bytes.zeroize();
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const FORMATS: [TokenFormat; 3] = [
        TokenFormat { type_prefix: "gr_", parts: &[8, 32] },
        TokenFormat { type_prefix: "grt_", parts: &[40] },
        TokenFormat { type_prefix: "x", parts: &[1, 2, 3] },
    ];

    #[test]
    fn generated_tokens_parse_differ_and_are_not_printed() {
        for format in FORMATS {
            let [a, b] = [(); 2].map(|()| format.generate().expect("a token"));
            assert!(a != b && a.hash() != b.hash());
            assert_eq!(format.read(a.expose()), Some(a.clone()));
            assert_eq!(a.expose().len(), format.length());
            assert_eq!(format!("{a:?}"), "…");
        }
    }

    proptest! {
        #[test]
        fn one_character_changed_is_refused(format in 0..3_usize, at in 0..50_usize, to in any::<u8>()) {
            let format = FORMATS[format];
            let mut text = format.generate().expect("a token").expose().as_bytes().to_vec();
            let at = at % text.len();
            prop_assume!(text[at] != to);
            text[at] = to;
            prop_assert!(!format.fits(&text));
        }

        #[test]
        fn other_text_is_refused(text in ".{0,60}", cut in 0..60_usize) {
            for format in FORMATS {
                prop_assert!(!format.fits(text.as_bytes()));
                let branded = format!("{}{text}", format.type_prefix);
                prop_assert!(!format.fits(branded.as_bytes()));
                let good = format.generate().expect("a token").expose().to_owned();
                prop_assert!(cut >= good.len() || !format.fits(&good.as_bytes()[..cut]));
                let longer = format!("{good}0");
                prop_assert!(!format.fits(longer.as_bytes()));
            }
        }
    }

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
}
