//! Classifies errors of the pool and of statements: retry on another connection, database unavailable,
//! or a case for an operator.

use std::error::Error;
use std::iter::successors;

use deadpool::managed::TimeoutType;
use tokio_postgres::error::{DbError, SqlState};

use super::connect::PoolError;
use super::hosts::HostError;
use crate::net::tls::is_untrusted_certificate;
use crate::upstream::UpstreamError;

/// Why one attempt failed.
#[derive(Debug)]
pub(super) enum Failure {
    /// The connection was lost or is dead, or its prepared statements are no longer valid. Another
    /// connection may succeed.
    Lost(UpstreamError),
    /// Anything else.
    Final(UpstreamError),
}

/// A refused login or an untrusted certificate is a case for an operator; a server that is starting,
/// full or unreachable is transient.
pub(super) fn from_pool(error: PoolError) -> UpstreamError {
    match error {
        // A timeout of the wait for a free connection does not mean that the server is
        // unavailable, unlike a timeout of connecting.
        PoolError::Timeout(TimeoutType::Wait) => UpstreamError::Timeout,
        // The server is available, and busy.
        error if is_full(&error) => UpstreamError::Timeout,
        PoolError::Backend(error) if error.0.iter().any(is_login_refused) => {
            UpstreamError::LoginRefused(error.into())
        }
        PoolError::Backend(error) => UpstreamError::Unreachable(error.into()),
        other => UpstreamError::Unreachable(other.into()),
    }
}

/// Whether the limit of connections, of the server or of our role, is reached.
pub(super) fn is_full(error: &PoolError) -> bool {
    let PoolError::Backend(error) = error else { return false };
    error.0.iter().any(|error| match error {
        HostError::Connection(error) => error.code() == Some(&SqlState::TOO_MANY_CONNECTIONS),
        _ => false,
    })
}

fn is_login_refused(error: &HostError) -> bool {
    let HostError::Connection(error) = error else { return false };
    // Without an error of the server, it is the library's: no password, for example.
    let is_refused = error.as_db_error().map_or(!is_transport(error), |error| {
        // 28: invalid authorization, 3D: no such database, 42501: no right to connect to it.
        let code = error.code().code();
        code.starts_with("28") || code.starts_with("3D") || code == "42501" || is_poolers(error)
    });
    is_refused || is_untrusted_certificate(error)
}

/// Whether PgBouncer reports a refused login, which is its own or the server's.
fn is_poolers(error: &DbError) -> bool {
    let words = ["authentication failed", "does not exist", "not permitted to log in"];
    *error.code() == SqlState::PROTOCOL_VIOLATION
        && words.iter().any(|words| error.message().contains(words))
}

/// The SQL state of a failed statement.
pub(super) fn sql_state(error: &UpstreamError) -> Option<&SqlState> {
    let UpstreamError::Failed(cause) = error else { return None };
    cause.downcast_ref::<tokio_postgres::Error>()?.code()
}

pub(super) fn classify(error: tokio_postgres::Error) -> Failure {
    let is_lost = match error.as_db_error() {
        None => is_transport(&error),
        Some(database) => {
            let code = database.code();
            if is_poolers(database) {
                return Failure::Final(UpstreamError::LoginRefused(error.into()));
            }
            if *code == SqlState::QUERY_CANCELED || *code == SqlState::LOCK_NOT_AVAILABLE {
                return Failure::Final(UpstreamError::Timeout);
            }
            ends_the_connection(code) || is_stale_statement(code, database.message())
        }
    };
    if is_lost {
        Failure::Lost(UpstreamError::Unreachable(error.into()))
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
