//! Why commands fail, and what a failure says about the server.

use redis::{ErrorKind, RedisError, RedisResult, ServerErrorKind, Value};
use thiserror::Error;

use super::dial::timeout_error;
use crate::ops::error_chain;
use crate::sync::CallOutcome;

/// The replies to several commands, in the order of the commands. Each may be an error.
pub(super) type Replies = Vec<RedisResult<Value>>;

/// Why commands have no replies.
#[derive(Debug, Clone, Error)]
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
    /// Too many commands wait for Redis already, so this one was given up.
    #[error("too many commands wait for redis")]
    LaneFull,
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
            Self::CircuitOpen | Self::LaneFull => false,
        }
    }

    /// The failure as the error of one command, for callers whose other commands have replies.
    pub(super) fn command_error(&self) -> RedisError {
        match self {
            Self::Failed(error) => error.clone(),
            Self::CircuitOpen => {
                (ErrorKind::Io, "the command's node is known to be unavailable").into()
            }
            Self::LaneFull => {
                (ErrorKind::Io, "too many commands wait for the command's node").into()
            }
            Self::Timeout | Self::PoolExhausted => {
                timeout_error("the command's node did not reply in time")
            }
        }
    }
}

/// What a call tells the circuit breaker about the server, if anything. Errors that concern only a
/// command say nothing about the server. `needs_rights`: without the right to run the command, the
/// server counts as unavailable.
pub(super) fn outcome(
    result: &Result<Replies, RedisFailure>,
    needs_rights: bool,
) -> Option<CallOutcome> {
    match result {
        Ok(replies) if refusal(replies, needs_rights).is_some() => Some(CallOutcome::Refused),
        Ok(replies) if replies.iter().all(|reply| reply.as_ref().is_err_and(concerns_slot)) => None,
        Ok(_) => Some(CallOutcome::Answered),
        Err(RedisFailure::PoolExhausted | RedisFailure::LaneFull) => None,
        // The error sink of the pool has already recorded a refused connection.
        Err(RedisFailure::CircuitOpen | RedisFailure::Timeout | RedisFailure::Failed(_)) => {
            Some(CallOutcome::Lost)
        }
    }
}

/// Why the server is unavailable, if [`outcome`] is not `Answered`.
pub(super) fn reason(result: &Result<Replies, RedisFailure>, needs_rights: bool) -> Option<String> {
    match result {
        Ok(replies) => refusal(replies, needs_rights).map(ToString::to_string),
        Err(error) => Some(error_chain(error)),
    }
}

/// The first reply by which the server refuses every command of this mode, not only this one.
fn refusal(replies: &Replies, needs_rights: bool) -> Option<&RedisError> {
    let is_refusal =
        |error: &RedisError| refuses_service(error) || (needs_rights && lacks_right(error));
    replies.iter().filter_map(|reply| reply.as_ref().err()).find(|error| is_refusal(error))
}

/// Whether the user lacks the right to run the command, or a command of its script. Before version
/// 7.2, the latter has no code of its own.
pub(super) fn lacks_right(error: &RedisError) -> bool {
    error.kind() == ErrorKind::Server(ServerErrorKind::NoPerm)
        || error
            .detail()
            .is_some_and(|detail| detail.contains("The user executing the script can't"))
}

fn refuses_service(error: &RedisError) -> bool {
    match error.kind() {
        ErrorKind::Server(
            ServerErrorKind::ReadOnly | ServerErrorKind::BusyLoading | ServerErrorKind::MasterDown,
        ) => true,
        ErrorKind::Server(ServerErrorKind::ClusterDown) => !concerns_slot(error),
        _ => match error.code() {
            Some("BUSY" | "OOM" | "MISCONF" | "NOAUTH" | "NOREPLICAS") => true,
            // Before version 7, an error inside a script is part of the detail of the script's
            // error.
            Some("ERR") => error.detail().is_some_and(|detail| {
                ["-OOM ", "-READONLY ", "-MISCONF "].iter().any(|code| detail.contains(code))
            }),
            _ => false,
        },
    }
}

/// Whether the server did not run the command because of its slot. A server checks this before its
/// own state, so this error does not even show that it would run other commands.
fn concerns_slot(error: &RedisError) -> bool {
    match error.kind() {
        ErrorKind::Server(
            ServerErrorKind::Moved
            | ServerErrorKind::Ask
            | ServerErrorKind::TryAgain
            | ServerErrorKind::CrossSlot,
        ) => true,
        ErrorKind::Server(ServerErrorKind::ClusterDown) => {
            error.detail().is_some_and(|detail| detail.starts_with("Hash slot not served"))
        }
        _ => false,
    }
}

/// The error of a reply that does not have the expected form.
pub(super) fn unexpected(what: &'static str) -> RedisError {
    (ErrorKind::UnexpectedReturnType, what).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The result of a call whose replies are these lines of the protocol.
    fn result_of(replies: &[&str]) -> Result<Replies, RedisFailure> {
        let parse = |line: &&str| {
            let value = redis::parse_redis_value(format!("{line}\r\n").as_bytes());
            value.and_then(Value::extract_error)
        };
        Ok(replies.iter().map(parse).collect())
    }

    fn outcome_of(replies: &[&str]) -> Option<CallOutcome> {
        outcome(&result_of(replies), false)
    }

    #[test]
    fn a_missing_right_is_held_against_the_server_only_where_the_command_must_run() {
        for error in [
            "-NOPERM User u has no permissions to run the 'evalsha' command",
            "-NOPERM ACL failure in script: User u has no permissions to run the 'set' command",
            "-NOPERM No permissions to access a key",
            "-ERR The user executing the script can't run this command or subcommand script: 1f",
            "-ERR The user executing the script can't access at least one of the keys mentioned",
            "-ERR Error running script (call to f_1): @user_script:2: @user_script: 2: The user \
             executing the script can't run this command or subcommand",
        ] {
            let result = result_of(&["+OK", error]);
            assert_eq!(outcome(&result, false), Some(CallOutcome::Answered), "{error}");
            assert_eq!(outcome(&result, true), Some(CallOutcome::Refused), "{error}");
            assert!(reason(&result, true).is_some() && reason(&result, false).is_none(), "{error}");
        }
    }

    #[test]
    fn errors_that_every_command_would_get_are_held_against_the_server() {
        for error in [
            "-BUSY Redis is busy running a script.",
            "-CLUSTERDOWN The cluster is down",
            "-CLUSTERDOWN The cluster is down and only accepts read commands",
            "-ERR Error running script: @user_script:9: -OOM command not allowed",
            "-LOADING Redis is loading the dataset in memory",
            "-MASTERDOWN Link with MASTER is down",
            "-MISCONF Redis is configured to save RDB snapshots",
            "-NOAUTH Authentication required.",
            "-NOREPLICAS Not enough good replicas to write.",
            "-OOM command not allowed when used memory > 'maxmemory'.",
            "-READONLY You can't write against a read only replica.",
        ] {
            assert_eq!(outcome_of(&[error]), Some(CallOutcome::Refused), "{error}");
            assert_eq!(outcome_of(&["+OK", error]), Some(CallOutcome::Refused), "{error}");
        }
    }

    #[test]
    fn errors_of_a_slot_say_nothing_about_the_server() {
        for error in [
            "-ASK 7 127.0.0.1:7001",
            "-CLUSTERDOWN Hash slot not served",
            "-CROSSSLOT Keys in request don't hash to the same slot",
            "-MOVED 7 127.0.0.1:7001",
            "-TRYAGAIN Multiple keys request during rehashing of slot",
        ] {
            assert_eq!(outcome_of(&[error]), None, "{error}");
            assert_eq!(outcome_of(&["+OK", error]), Some(CallOutcome::Answered), "{error}");
        }
    }

    #[test]
    fn errors_of_one_command_are_replies() {
        for error in [
            "-ERR unknown command 'x'",
            "-NOSCRIPT No matching script.",
            "-WRONGTYPE Operation against a key holding the wrong kind of value",
        ] {
            assert_eq!(outcome_of(&[error]), Some(CallOutcome::Answered), "{error}");
        }
    }
}
