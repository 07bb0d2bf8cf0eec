//! Why commands fail, and what a failure says about the server.

use redis::{ErrorKind, RedisError, RedisResult, ServerErrorKind, Value};
use thiserror::Error;

use super::dial::timeout_error;
use crate::ops::error_chain;
use crate::sync::CallOutcome;

/// The replies to several commands, in the order of the commands. Each may be an error.
pub(super) type Replies = Vec<RedisResult<Value>>;

/// Why commands have no replies.
#[derive(Debug, Error)]
pub enum RedisFailure {
    /// The circuit breaker is open: nothing was sent or waited for.
    #[error("redis is known to be unavailable")]
    CircuitOpen,
    /// There was no reply within `redis.timeout_ms`.
    #[error("redis did not reply in time")]
    Timeout,
    /// All connections of the pool were in use for `redis.timeout_ms`. Redis may be available.
    #[error("all connections to redis were in use")]
    PoolExhausted,
    /// Redis or the connection to it failed.
    #[error("redis failed")]
    Failed(#[from] RedisError),
}

impl RedisFailure {
    /// Whether `redis.timeout_ms` passed. Both this service and the client library measure it.
    pub fn is_late(&self) -> bool {
        match self {
            Self::Timeout | Self::PoolExhausted => true,
            Self::Failed(error) => error.is_timeout(),
            Self::CircuitOpen => false,
        }
    }

    /// The failure as the error of one command, for callers whose other commands have replies.
    pub(super) fn command_error(&self) -> RedisError {
        match self {
            Self::Failed(error) => error.clone(),
            Self::CircuitOpen => {
                (ErrorKind::Io, "the command's node is known to be unavailable").into()
            }
            Self::Timeout | Self::PoolExhausted => {
                timeout_error("the command's node did not reply in time")
            }
        }
    }
}

/// What a call tells the circuit breaker about the server, if anything.
pub(super) fn outcome(result: &Result<Replies, RedisFailure>) -> Option<CallOutcome> {
    match result {
        Ok(replies) if refusal(replies).is_some() => Some(CallOutcome::Refused),
        Ok(_) => Some(CallOutcome::Answered),
        Err(RedisFailure::PoolExhausted) => None,
        // The error sink of the pool has already recorded a refused connection.
        Err(RedisFailure::CircuitOpen | RedisFailure::Timeout | RedisFailure::Failed(_)) => {
            Some(CallOutcome::Lost)
        }
    }
}

/// Why the server is unavailable, if [`outcome`] is not `Answered`.
pub(super) fn reason(result: &Result<Replies, RedisFailure>) -> Option<String> {
    match result {
        Ok(replies) => refusal(replies).map(ToString::to_string),
        Err(error) => Some(error_chain(error)),
    }
}

/// The first reply by which the server refuses every command of this mode, not only this one.
fn refusal(replies: &Replies) -> Option<&RedisError> {
    replies.iter().filter_map(|reply| reply.as_ref().err()).find(|error| refuses_service(error))
}

fn refuses_service(error: &RedisError) -> bool {
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
            // Before version 7, an error inside a script is part of the detail of the script's
            // error.
            Some("ERR") => error.detail().is_some_and(|detail| {
                ["-OOM ", "-READONLY ", "-MISCONF "].iter().any(|code| detail.contains(code))
            }),
            _ => false,
        },
    }
}

/// The error of a reply that does not have the expected form.
pub(super) fn unexpected(what: &'static str) -> RedisError {
    (ErrorKind::UnexpectedReturnType, what).into()
}
