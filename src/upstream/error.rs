//! The reasons why a read of the upstream fails.

use std::time::Instant;

use thiserror::Error;

use crate::ops::error_chain;
use crate::registry::ContractBreach;
use crate::sync::{Breaker, CallOutcome};

/// Why a read of the upstream failed.
#[derive(Debug, Error)]
pub enum UpstreamError {
    /// The connection failed or was lost. Transient.
    #[error("the database cannot be reached")]
    Unreachable(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The database, or the client library, refuses the login. An operator must act.
    #[error("the database refuses the login")]
    LoginRefused(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// Another replica has just failed to read the same. Transient.
    #[error("another replica could not read the database just now")]
    Elsewhere,
    /// Only a standby is available, and it has not replayed a known change yet. Transient.
    #[error("the only available standby has not replayed a known change")]
    Behind,
    /// The statement, or the wait for a free connection, timed out. Transient.
    #[error("the database did not respond in time")]
    Timeout,
    /// The database rejected the statement, or returned something unexpected. An operator must act.
    #[error("the database rejected a statement, or its result is invalid")]
    Failed(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The row violates the contract of the views.
    #[error(transparent)]
    Contract(#[from] ContractBreach),
}

/// Tells a circuit breaker the outcome of a call of its server.
pub(super) fn record(breaker: &Breaker, error: Option<&UpstreamError>, begun: Instant) {
    let outcome = match error {
        Some(UpstreamError::Unreachable(_) | UpstreamError::LoginRefused(_)) => {
            CallOutcome::Refused
        }
        Some(UpstreamError::Timeout) => CallOutcome::Lost,
        _ => CallOutcome::Answered,
    };
    breaker.record(outcome, begun, Instant::now(), || error.map(|it| error_chain(it)));
}
