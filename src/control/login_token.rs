//! The form of a login token: `grt_` + 40 characters + 6 check characters, as that of an API key
//! (see [`crate::keys`]).

use std::str::FromStr;

use thiserror::Error;

use crate::keys::NoRandomness;
use crate::keys::secret_token::{SecretToken, TokenFormat};

/// How each begins.
pub(super) const BRAND: &str = "grt_";
const FORM: TokenFormat = TokenFormat { type_prefix: BRAND, parts: &[40] };

/// A login token in plain text. Never logged; wiped when dropped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoginToken(SecretToken);

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
        FORM.generate().map(Self)
    }

    /// The plain token, for the person it is for.
    pub fn expose(&self) -> &str {
        self.0.expose()
    }

    /// What the configuration knows of it: SHA-256 of its text.
    pub fn hash(&self) -> [u8; 32] {
        self.0.hash()
    }
}

impl FromStr for LoginToken {
    type Err = MalformedLoginToken;

    fn from_str(text: &str) -> Result<Self, MalformedLoginToken> {
        FORM.read(text).map(Self).ok_or(MalformedLoginToken)
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
