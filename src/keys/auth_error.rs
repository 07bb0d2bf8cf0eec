//! Why a request is not authenticated.

use std::sync::Arc;

use thiserror::Error;

use crate::sync::TaskPanicked;
use crate::upstream::UpstreamError;

/// Why a request is denied. Callers get the same response for all reasons; the log has the reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum AuthDenied {
    #[error("no key was sent")]
    Missing,
    #[error("more than one key was sent")]
    SentTwice,
    #[error("the key is malformed")]
    Malformed,
    #[error("the key was created elsewhere, and keys.accept_foreign is false")]
    External,
    #[error("the key is unknown")]
    Unknown,
    #[error("the key has expired")]
    Expired,
    #[error("the key was revoked")]
    Revoked,
    #[error("the key lacks the scope read")]
    OutOfScope,
}

/// Why a request is not authenticated.
#[derive(Debug, Clone, Error)]
pub enum NotAuthenticated {
    /// The key is missing or not valid.
    #[error(transparent)]
    Denied(#[from] AuthDenied),
    /// The key's record can't be read at the moment.
    #[error("the key's record cannot be read")]
    Unavailable(#[source] Arc<UpstreamError>),
    /// Too many unknown keys are being looked up.
    #[error("too many unknown keys are being looked up")]
    TooManyUnknown,
    /// The lookup of the record panicked.
    #[error(transparent)]
    TaskPanicked(#[from] TaskPanicked),
}
