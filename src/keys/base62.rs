//! What keys and login tokens are made of: digits, randomness, and a check.

use secrecy::zeroize::Zeroize;
use thiserror::Error;

pub(super) const DIGITS: &[u8; 62] =
    b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// Check characters at the end.
pub(crate) const CHECK_CHARS: usize = 6;

/// The operating system has no randomness to give.
#[derive(Debug, Error)]
#[error("the operating system gave no randomness: {0}")]
pub struct NoRandomness(getrandom::Error);

/// CRC-32 (IEEE) in base 62, most significant digit first, padded with `0`.
pub(crate) fn check_characters(body: &[u8]) -> [u8; CHECK_CHARS] {
    let mut rest = crc32fast::hash(body) as usize;
    let mut check = [b'0'; CHECK_CHARS];
    for digit in check.iter_mut().rev() {
        *digit = DIGITS[rest % DIGITS.len()];
        rest /= DIGITS.len();
    }
    check
}

/// Adds `count` digits, each as likely, from the operating system's randomness.
pub(crate) fn push_random_digits(text: &mut String, count: usize) -> Result<(), NoRandomness> {
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
}
