//! The form of a login token: `grt_` + 40 characters + 6 check characters, of the same digits and
//! with the same check as an API key.

use std::fmt;
use std::str::FromStr;

use secrecy::zeroize::Zeroize;
use sha2::{Digest, Sha256};
use thiserror::Error;

use crate::keys::NoRandomness;
use crate::keys::base62::{CHECK_CHARS, check_characters, push_random_digits};

/// How each begins.
pub(super) const BRAND: &str = "grt_";
const SECRET_CHARS: usize = 40;
const LENGTH: usize = BRAND.len() + SECRET_CHARS + CHECK_CHARS;

/// A login token in plain text. Never logged; wiped when dropped.
#[derive(Clone, PartialEq, Eq)]
pub struct LoginToken(String);

/// The text has not the form of a login token, or its check characters are wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("not a login token: expected grt_ + 46 letters or digits with a right check")]
pub struct MalformedLoginToken;

impl LoginToken {
    /// A new token, from the operating system's randomness.
    ///
    /// # Errors
    /// [`NoRandomness`].
    pub fn generate() -> Result<Self, NoRandomness> {
        let mut text = String::with_capacity(LENGTH);
        text.push_str(BRAND);
        push_random_digits(&mut text, SECRET_CHARS)?;
        let check = check_characters(text.as_bytes());
        text.extend(check.map(char::from));
        Ok(Self(text))
    }

    /// The plain token, for the person it is for.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// What the configuration knows of it: SHA-256 of its text.
    pub fn hash(&self) -> [u8; 32] {
        Sha256::digest(self.0.as_bytes()).into()
    }
}

impl FromStr for LoginToken {
    type Err = MalformedLoginToken;

    fn from_str(text: &str) -> Result<Self, MalformedLoginToken> {
        let secret = text.strip_prefix(BRAND).ok_or(MalformedLoginToken)?;
        let (body, check) = text.as_bytes().split_at(text.len().saturating_sub(CHECK_CHARS));
        let fits = text.len() == LENGTH
            && secret.bytes().all(|byte| byte.is_ascii_alphanumeric())
            && check_characters(body) == check;
        fits.then(|| Self(text.to_owned())).ok_or(MalformedLoginToken)
    }
}

impl fmt::Debug for LoginToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LoginToken(…)")
    }
}

impl Drop for LoginToken {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_read_back_and_mistyped_ones_are_refused() {
        let token = LoginToken::generate().expect("a token");
        let text = token.expose().to_owned();
        assert_eq!(text.len(), 4 + 40 + 6);
        assert_eq!(text.parse(), Ok(token.clone()));
        assert_ne!(token.hash(), LoginToken::generate().expect("a token").hash());
        assert_eq!(format!("{token:?}"), "LoginToken(…)");
        let other = if text.ends_with('0') { '1' } else { '0' };
        let mistyped = format!("{}{other}", &text[..text.len() - 1]);
        for wrong in ["", "grt_", &text[..49], &text[4..], &mistyped, "grt_ü", &format!("{text}0")]
        {
            assert_eq!(wrong.parse::<LoginToken>(), Err(MalformedLoginToken), "{wrong}");
        }
    }
}
