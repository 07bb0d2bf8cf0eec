//! API keys: `gr_` + 8 characters + `_` + 32 characters + 6 check characters, see
//! [`super::secret_token`].

use std::str::FromStr;

use sha2::{Digest, Sha256};
use thiserror::Error;

use super::secret_token::{NoRandomness, SecretToken, TokenFormat};
use crate::registry::KeyHash;

/// The beginning of each key.
pub(super) const TYPE_PREFIX: &str = "gr_";
/// The characters after it that belong to the prefix of a key.
pub(super) const PREFIX_CHARS: usize = 8;
const SECRET_CHARS: usize = 32;
const FORMAT: TokenFormat =
    TokenFormat { type_prefix: TYPE_PREFIX, parts: &[PREFIX_CHARS, SECRET_CHARS] };

/// A whole API key in plain text. Never stored, never logged; wiped when dropped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiKey(SecretToken);

/// The text does not have the format of a key, or its check characters are wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error(
    "not an API key: expected gr_, 8 letters or digits, _ and 38 letters or digits whose check \
     characters are correct"
)]
pub struct MalformedKey;

impl ApiKey {
    /// A new key, from the operating system's random bytes.
    ///
    /// # Errors
    /// [`NoRandomness`] if the operating system provides none.
    pub fn generate() -> Result<Self, NoRandomness> {
        FORMAT.generate().map(Self)
    }

    /// The plain key. To be shown once, to its owner.
    pub fn expose(&self) -> &str {
        self.0.expose()
    }

    /// The prefix that identifies the key to people: `gr_` and 8 characters.
    pub fn prefix(&self) -> &str {
        &self.expose()[..TYPE_PREFIX.len() + PREFIX_CHARS]
    }

    /// The hash that is stored instead of the key.
    pub fn hash(&self) -> KeyHash {
        KeyHash(self.0.hash())
    }
}

/// Whether `text` has the format of a key. Used for every request, so unlike parsing an [`ApiKey`]
/// it makes no copy that would have to be wiped.
pub(crate) fn is_key(text: &[u8]) -> bool {
    FORMAT.fits(text)
}

/// The hash that is stored instead of a key: SHA-256 of its text.
pub(super) fn hash(key: &[u8]) -> KeyHash {
    KeyHash(Sha256::digest(key).into())
}

impl FromStr for ApiKey {
    type Err = MalformedKey;

    fn from_str(text: &str) -> Result<Self, MalformedKey> {
        FORMAT.read(text).map(Self).ok_or(MalformedKey)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_keys_are_read_back_and_differ() {
        let (a, b) = (ApiKey::generate().expect("a key"), ApiKey::generate().expect("a key"));
        assert_ne!(a.prefix(), b.prefix());
        assert_ne!(a.hash(), b.hash());
        assert_eq!(a.expose().parse::<ApiKey>(), Ok(a.clone()));
        assert!(is_key(a.expose().as_bytes()) && hash(a.expose().as_bytes()) == a.hash());
        assert_eq!(a.expose().len(), 3 + 8 + 1 + 32 + 6);
        assert_eq!(format!("{a:?}"), "ApiKey(…)");
        let mistyped = format!("{}-", &a.expose()[..49]);
        assert_eq!(mistyped.parse::<ApiKey>(), Err(MalformedKey));
        assert!(!is_key(mistyped.as_bytes()));
    }
}
