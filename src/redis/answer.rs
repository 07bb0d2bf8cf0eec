//! What comes of a command: an answer, or why there is none, and what that says about the server.

use redis::{ErrorKind, RedisError, RedisResult, ServerErrorKind, Value};
use thiserror::Error;

use super::dial::late;
use crate::ops::error_chain;
use crate::sync::CallOutcome;

/// What a server says to several commands, each on its own, in their order.
pub(super) type Replies = Vec<RedisResult<Value>>;

/// Why there is no answer.
#[derive(Debug, Error)]
pub enum RedisFailure {
    /// Known to be away: nobody waited.
    #[error("redis is known to be away")]
    CircuitOpen,
    /// It did not answer within `redis.timeout_ms`.
    #[error("redis did not answer in time")]
    Timeout,
    /// All our connections were taken for `redis.timeout_ms`: this says nothing about Redis.
    #[error("all connections to redis were taken")]
    PoolExhausted,
    /// It, or the way to it, failed.
    #[error("redis failed")]
    Failed(#[from] RedisError),
}

impl RedisFailure {
    /// Whether `redis.timeout_ms` was spent on it: by us, or by the client in the same moment.
    pub fn is_late(&self) -> bool {
        match self {
            Self::Timeout | Self::PoolExhausted => true,
            Self::Failed(error) => error.is_timeout(),
            Self::CircuitOpen => false,
        }
    }

    /// The same as the error of a single command, among others that were answered.
    pub(super) fn of_one(&self) -> RedisError {
        match self {
            Self::Failed(error) => error.clone(),
            Self::CircuitOpen => (ErrorKind::Io, "the command's node is known to be away").into(),
            Self::Timeout | Self::PoolExhausted => {
                late("the command's node did not answer in time")
            }
        }
    }
}

/// What a call says about the store, if anything.
pub(super) fn outcome(result: &Result<Replies, RedisFailure>) -> Option<CallOutcome> {
    match result {
        Ok(replies) if replies.iter().any(refuses_service) => Some(CallOutcome::Refused),
        Ok(_) => Some(CallOutcome::Answered),
        Err(RedisFailure::PoolExhausted) => None,
        // A refused connection has already been recorded where it was seen.
        Err(RedisFailure::CircuitOpen | RedisFailure::Timeout | RedisFailure::Failed(_)) => {
            Some(CallOutcome::Lost)
        }
    }
}

/// Why the store was not answering, where [`outcome`] says so.
pub(super) fn reason(result: &Result<Replies, RedisFailure>) -> Option<String> {
    match result {
        Ok(replies) => {
            let refusal = replies.iter().find(|reply| refuses_service(reply));
            refusal.and_then(|reply| reply.as_ref().err()).map(ToString::to_string)
        }
        Err(error) => Some(error_chain(error)),
    }
}

/// Errors that say "not here, not now" rather than "not like this".
fn refuses_service(reply: &RedisResult<Value>) -> bool {
    let Err(error) = reply else { return false };
    match error.kind() {
        ErrorKind::Server(
            ServerErrorKind::ReadOnly
            | ServerErrorKind::BusyLoading
            | ServerErrorKind::MasterDown
            | ServerErrorKind::ClusterDown
            | ServerErrorKind::NoPerm,
        ) => true,
        _ => match error.code() {
            Some("OOM" | "MISCONF" | "NOAUTH" | "NOREPLICAS") => true,
            // Before version 7, an error inside a script is wrapped into the script's own.
            Some("ERR") => error.detail().is_some_and(|detail| {
                ["-OOM ", "-READONLY ", "-MISCONF "].iter().any(|code| detail.contains(code))
            }),
            _ => false,
        },
    }
}

pub(super) fn unexpected(what: &'static str) -> RedisError {
    (ErrorKind::UnexpectedReturnType, what).into()
}
