//! What keeps keys, and what people are told when a key can't be found.

use std::fmt;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::cli::show::{local, sanitize};
use crate::cli::{Error, UsageError};
use crate::keys::store::{KeyRefusal, StoreError, StoredKey};
use crate::keys::{KeyPrefix, KeySpec};

/// Of keys that begin alike, so many are shown.
const SHOWN: usize = 20;

/// A new key. The only place where a plain key is.
#[derive(Serialize, Deserialize)]
pub(super) struct Created {
    pub(super) key: String,
    #[serde(flatten)]
    pub(super) stored: StoredKey,
}

/// A new key that takes another one's place.
#[derive(Serialize, Deserialize)]
pub(super) struct Rotated {
    #[serde(flatten)]
    pub(super) created: Created,
    pub(super) replaced: StoredKey,
}

/// The beginning of a key as typed: judged before anything is sent anywhere.
pub(super) fn parse_prefix(typed: &str) -> Result<KeyPrefix, UsageError> {
    typed.parse().map_err(|error| UsageError::new(format!("nothing was done: --prefix: {error}")))
}

/// Keys of one user, or of all.
#[async_trait]
pub(super) trait KeyClient: Send {
    async fn create(&mut self, spec: KeySpec) -> Result<Created, KeyError>;

    /// All of them, newest first.
    async fn list(&mut self) -> Result<Vec<StoredKey>, KeyError>;

    /// Revokes the one key that begins like this; one that was revoked before stays as it is.
    async fn revoke(&mut self, prefix: &KeyPrefix) -> Result<StoredKey, KeyError>;

    /// Replaces the one key that begins like this; it ends `overlap_s` seconds from now.
    async fn rotate(&mut self, prefix: &KeyPrefix, overlap_s: u32) -> Result<Rotated, KeyError>;
}

/// Why nothing was done.
#[derive(Debug)]
pub(super) enum KeyError {
    /// The key cannot be revoked or rotated.
    Refused(KeyRefusal),
    /// Anything else.
    Other(Error),
}

impl KeyError {
    pub(super) fn other(error: impl Into<Error>) -> Self {
        Self::Other(error.into())
    }
}

impl From<StoreError> for KeyError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Refused(refusal) => Self::Refused(refusal),
            error => Self::other(error),
        }
    }
}

impl From<KeyError> for Error {
    fn from(error: KeyError) -> Self {
        match error {
            KeyError::Refused(KeyRefusal::Unknown) => UsageError::new(
                "no key that you can see begins like that; nothing was done. To see them: \
                 gene-registry api-key list",
            )
            .into(),
            KeyError::Refused(KeyRefusal::Ambiguous(keys)) => {
                let mut text = "several keys begin like that; nothing was done. Give more of one \
                     of these prefixes:"
                    .to_owned();
                for key in keys.iter().take(SHOWN) {
                    text.push_str(&format!("\n  {}", Named(key)));
                }
                if keys.len() > SHOWN {
                    text.push_str("\n  and others");
                }
                UsageError::new(text).into()
            }
            KeyError::Refused(KeyRefusal::AlreadyRotated(successor)) => {
                already_rotated(&successor).into()
            }
            KeyError::Refused(KeyRefusal::NotActive) => {
                "the key has ended or was revoked, so it can't be rotated; nothing was done. To \
                 make a new one: gene-registry api-key create --name NAME"
                    .into()
            }
            KeyError::Other(error) => error,
        }
    }
}

fn already_rotated(successor: &StoredKey) -> String {
    let prefix = sanitize(&successor.prefix);
    let used = match successor.last_used_at {
        Some(at) => format!("last used {}", local(at)),
        None => "not known to have been used".to_owned(),
    };
    format!(
        "the key was rotated before: {} took its place ({}, {used}); nothing was done. If nobody \
         has the new key, replace it: gene-registry api-key rotate --prefix {prefix} --overlap 0s",
        Named(successor),
        local(successor.created_at),
    )
}

/// A key as people call it: `gr_aB3dEf7h (ci)`.
pub(super) struct Named<'a>(pub(super) &'a StoredKey);

impl fmt::Display for Named<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", sanitize(&self.0.prefix), sanitize(&self.0.name))
    }
}
