//! Login tokens: `grt_`, 40 random characters and 6 check characters, like API keys (see
//! [`crate::keys`]).

use std::str::FromStr;

use thiserror::Error;

use crate::keys::NoRandomness;
use crate::keys::secret_token::{SecretToken, TokenFormat};

/// The beginning of each login token.
pub(super) const TYPE_PREFIX: &str = "grt_";
const FORMAT: TokenFormat = TokenFormat { type_prefix: TYPE_PREFIX, parts: &[40] };

/// A login token in plain text. Never logged; wiped when dropped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoginToken(SecretToken);

/// The text does not have the form of a login token, or its check characters are wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error(
    "not a login token: expected grt_ and 46 letters or digits whose check characters are correct"
)]
pub struct MalformedLoginToken;

impl LoginToken {
    /// A new token from the operating system's random numbers.
    ///
    /// # Errors
    /// The operating system has no random numbers.
    pub fn generate() -> Result<Self, NoRandomness> {
        FORMAT.generate().map(Self)
    }

    /// The token in plain text, for its user.
    pub fn expose(&self) -> &str {
        self.0.expose()
    }

    /// The SHA-256 of its text, which the configuration contains.
    pub fn hash(&self) -> [u8; 32] {
        self.0.hash()
    }
}

impl FromStr for LoginToken {
    type Err = MalformedLoginToken;

    fn from_str(text: &str) -> Result<Self, MalformedLoginToken> {
        FORMAT.read(text).map(Self).ok_or(MalformedLoginToken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_parsed_and_mistyped_ones_are_refused() {
        let token = LoginToken::generate().expect("a token");
        let text = token.expose().to_owned();
        assert_eq!(text.len(), 4 + 40 + 6);
        assert_eq!(text.parse(), Ok(token.clone()));
        assert_ne!(token.hash(), LoginToken::generate().expect("a token").hash());
        assert_eq!(format!("{token:?}"), "LoginToken(…)");
        let other = if text.ends_with('0') { '1' } else { '0' };
        let mistyped = format!("{}{other}", &text[..text.len() - 1]);
        for malformed in
            ["", "grt_", &text[..49], &text[4..], &mistyped, "grt_ü", &format!("{text}0")]
        {
            assert_eq!(malformed.parse::<LoginToken>(), Err(MalformedLoginToken), "{malformed}");
        }
    }
}
