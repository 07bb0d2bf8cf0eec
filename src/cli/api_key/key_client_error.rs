//! Why a key could not be managed, as the user is told.

use std::fmt;

use crate::cli::command::{CommandError, UsageError};
use crate::cli::output::{local, sanitize};
use crate::keys::store::{KeyRefusal, StoreError, StoredKey};

/// How many keys with the same prefix are listed.
const MAX_LISTED: usize = 20;

/// Why nothing was changed.
#[derive(Debug)]
pub(super) enum KeyClientError {
    /// The key cannot be revoked or rotated.
    Refused(KeyRefusal),
    /// Another failure.
    Other(CommandError),
}

impl KeyClientError {
    pub(super) fn other(error: impl Into<CommandError>) -> Self {
        Self::Other(error.into())
    }
}

impl From<StoreError> for KeyClientError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Refused(refusal) => Self::Refused(refusal),
            error => Self::other(error),
        }
    }
}

impl From<KeyClientError> for CommandError {
    fn from(error: KeyClientError) -> Self {
        match error {
            KeyClientError::Refused(KeyRefusal::Unknown) => UsageError::new(
                "you have no key with this prefix; nothing was changed. List your keys: \
                 gene-registry api-key list",
            )
            .into(),
            KeyClientError::Refused(KeyRefusal::Ambiguous(keys)) => {
                let mut text = "several keys have this prefix; nothing was changed. Give a longer \
                                prefix:"
                    .to_owned();
                for key in keys.iter().take(MAX_LISTED) {
                    text.push_str(&format!("\n  {}", KeyLabel(key)));
                }
                if keys.len() > MAX_LISTED {
                    text.push_str("\n  and more");
                }
                UsageError::new(text).into()
            }
            KeyClientError::Refused(KeyRefusal::AlreadyRotated(successor)) => {
                already_rotated(&successor).into()
            }
            KeyClientError::Refused(KeyRefusal::NotActive) => {
                "the key has expired or was revoked and cannot be rotated; nothing was changed. \
                 Create a new one: gene-registry api-key create --name NAME"
                    .into()
            }
            KeyClientError::Other(error) => error,
        }
    }
}

/// Names the replacement, and how to replace it in turn.
fn already_rotated(successor: &StoredKey) -> String {
    let prefix = sanitize(&successor.prefix);
    let used = match successor.last_used_at {
        Some(at) => format!("last used {}", local(at)),
        None => "no use recorded".to_owned(),
    };
    format!(
        "the key was rotated before: {} replaced it ({}, {used}); nothing was changed. If the new \
         key is lost, replace it: gene-registry api-key rotate --prefix {prefix} --overlap 0s",
        KeyLabel(successor),
        local(successor.created_at),
    )
}

/// Displays a key by prefix and name: `gr_aB3dEf7h (ci)`.
pub(super) struct KeyLabel<'a>(pub(super) &'a StoredKey);

impl fmt::Display for KeyLabel<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", sanitize(&self.0.prefix), sanitize(&self.0.name))
    }
}
