//! Says why a key could not be managed, and what the user can do.

use std::fmt;

use crate::cli::command::{CommandError, UsageError};
use crate::cli::output::{local, sanitize};
use crate::cli::session::ControlClientError;
use crate::keys::UselessKey;
use crate::keys::store::{KeyRefusal, StoreError, StoredKey};

/// How many keys with the same prefix are listed.
const MAX_LISTED: usize = 20;

/// The options of `api-key list` for everyone's keys on a server, and in a database.
pub(super) const LIST_ALL: &str = " --all";
pub(super) const LIST_DIRECT: &str = " --direct --all";

/// The error for a user whose key cannot be created or changed.
/// `list_options`: of the command that lists the keys that were searched.
pub(super) fn refused(refusal: KeyRefusal, list_options: &str) -> CommandError {
    match refusal {
        KeyRefusal::Unknown => {
            let found = if list_options.is_empty() { "you have no key" } else { "there is no key" };
            UsageError::new(format!(
                "{found} with this prefix; nothing was changed. List the keys: gene-registry api-key \
                 list{list_options}"
            ))
            .into()
        }
        KeyRefusal::Ambiguous(keys) => {
            let mut text =
                "several keys have this prefix; nothing was changed. Give a longer prefix:"
                    .to_owned();
            for key in keys.iter().take(MAX_LISTED) {
                text.push_str(&format!("\n  {}", KeyLabel(key)));
            }
            if keys.len() > MAX_LISTED {
                text.push_str("\n  and more");
            }
            UsageError::new(text).into()
        }
        KeyRefusal::AlreadyRotated(successor) => already_rotated(&successor).into(),
        KeyRefusal::NotActive => "the key has expired or was revoked and cannot be changed; \
                                  nothing was changed. Create a new one: gene-registry api-key \
                                  create --name NAME"
            .into(),
        KeyRefusal::LimitExceeded(exceeded) => exceeded.into(),
    }
}

/// The error for an operator whose key nobody could use.
pub(super) fn useless(error: UselessKey) -> CommandError {
    let option = match error {
        UselessKey::NoRequests => "--rate-limit",
        UselessKey::UnknownScopes { .. } => "--scope",
    };
    UsageError::new(format!(
        "{option}: {error}; nothing was changed. To create it anyway, add --block"
    ))
    .into()
}

/// Interprets an error of the key store.
pub(super) fn store_error(error: StoreError) -> CommandError {
    match error {
        StoreError::Refused(refusal) => refused(refusal, LIST_DIRECT),
        error => error.into(),
    }
}

/// Interprets an error of the control API; `all` if everyone's keys were searched.
pub(super) fn server_error(error: CommandError, all: bool) -> CommandError {
    let refused = |refusal| refused(refusal, if all { LIST_ALL } else { "" });
    let Some(ControlClientError::Rejected(rejection)) = error.downcast_ref() else { return error };
    match rejection.code.as_str() {
        "NOT_FOUND" => refused(KeyRefusal::Unknown),
        "AMBIGUOUS" => {
            refused(KeyRefusal::Ambiguous(rejection.field("candidates").unwrap_or_default()))
        }
        "ALREADY_ROTATED" => match rejection.field("successor") {
            Some(successor) => refused(KeyRefusal::AlreadyRotated(successor)),
            None => error,
        },
        "NOT_ACTIVE" => refused(KeyRefusal::NotActive),
        "INVALID_PREFIX" | "MISSING_PARAM" => {
            UsageError::new(format!("{}; nothing was changed", rejection.message)).into()
        }
        _ => error,
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
