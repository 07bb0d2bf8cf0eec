//! Classifies errors of the pool and of statements: retry on another connection, database unavailable,
//! or a case for an operator.

use std::error::Error;
use std::iter::successors;

use deadpool::managed::TimeoutType;
use tokio_postgres::error::SqlState;

use super::hosts::{HostError, NoUsableHost};
use super::manager::PoolError;
use crate::net::tls::is_untrusted_certificate;
use crate::upstream::UpstreamError;

/// Why one attempt failed.
#[derive(Debug)]
pub(super) enum Failure {
    /// The connection was lost, or its prepared statements are no longer valid. Another connection
    /// may succeed.
    Lost(tokio_postgres::Error),
    /// The connection is dead: not even the cancellation was confirmed.
    Unresponsive,
    /// Anything else.
    Final(UpstreamError),
}

pub(super) fn from_pool(error: PoolError) -> Failure {
    Failure::Final(match error {
        // A timeout of the wait for a free connection does not mean that the server is
        // unavailable, unlike a timeout of connecting.
        PoolError::Timeout(TimeoutType::Wait) => UpstreamError::Timeout,
        PoolError::Backend(error) => no_usable_host(error),
        other => UpstreamError::Unreachable(other.into()),
    })
}

/// A failed login or an untrusted certificate is a case for an operator; a server that is starting,
/// full or unreachable is transient. Several hosts are transient if one of them is.
pub(super) fn no_usable_host(error: NoUsableHost) -> UpstreamError {
    if is_full(&error) {
        // The server is available, and busy.
        UpstreamError::Timeout
    } else if error.errors().all(needs_operator) {
        UpstreamError::Failed(error.into())
    } else {
        UpstreamError::Unreachable(error.into())
    }
}

/// Whether the limit of connections, of the server or of our role, is reached.
pub(super) fn is_full(error: &NoUsableHost) -> bool {
    error.errors().any(|error| match error {
        HostError::Connection(error) => error.code() == Some(&SqlState::TOO_MANY_CONNECTIONS),
        _ => false,
    })
}

fn needs_operator(error: &HostError) -> bool {
    let HostError::Connection(error) = error else { return false };
    let login_failed = error.code().is_some_and(|code| {
        // 28: invalid authorization, 3D: no such database.
        code.code().starts_with("28") || code.code().starts_with("3D")
    });
    login_failed || is_untrusted_certificate(error)
}

pub(super) fn classify(error: tokio_postgres::Error) -> Failure {
    let Some(database) = error.as_db_error() else {
        return if is_transport(&error) {
            Failure::Lost(error)
        } else {
            Failure::Final(UpstreamError::Failed(error.into()))
        };
    };
    let code = database.code();
    if *code == SqlState::QUERY_CANCELED || *code == SqlState::LOCK_NOT_AVAILABLE {
        Failure::Final(UpstreamError::Timeout)
    } else if ends_the_connection(code) || is_stale_statement(code, database.message()) {
        Failure::Lost(error)
    } else {
        Failure::Final(UpstreamError::Failed(error.into()))
    }
}

fn is_transport(error: &tokio_postgres::Error) -> bool {
    let mut causes = successors(error.source(), |&cause| cause.source());
    error.is_closed() || causes.any(|cause| cause.is::<std::io::Error>())
}

/// Shutdown, crash, startup, idle timeout, or any error of class 08, which poolers send when they lose
/// a server.
fn ends_the_connection(code: &SqlState) -> bool {
    *code == SqlState::ADMIN_SHUTDOWN
        || *code == SqlState::CRASH_SHUTDOWN
        || *code == SqlState::CANNOT_CONNECT_NOW
        || code.code() == "57P05"
        || code.code().starts_with("08")
}

/// The prepared statement is missing, because a pooler assigned another server connection, or the
/// schema changed. Preparing it again succeeds.
fn is_stale_statement(code: &SqlState, message: &str) -> bool {
    *code == SqlState::INVALID_SQL_STATEMENT_NAME
        || *code == SqlState::DUPLICATE_PSTATEMENT
        || (*code == SqlState::FEATURE_NOT_SUPPORTED && message.contains("cached plan"))
        || (*code == SqlState::PROTOCOL_VIOLATION && message.contains("bind message"))
}
