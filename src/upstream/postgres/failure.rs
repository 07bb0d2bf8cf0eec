//! What an error of the pool or of a statement means: whether another connection may do, whether
//! the database is away, or whether an operator must look.

use deadpool::managed::TimeoutType;
use tokio_postgres::error::SqlState;

use super::hosts::{NoHost, Refusal};
use super::manager::PoolError;
use crate::upstream::UpstreamError;

/// Why one attempt failed.
#[derive(Debug)]
pub(super) enum Failure {
    /// The connection died under the statement, or its prepared statements are no longer
    /// valid: another connection may well do.
    Lost(tokio_postgres::Error),
    /// Nothing came on the connection any more, not even the word that the statement was cancelled.
    Silent,
    /// Anything else.
    Final(UpstreamError),
}

pub(super) fn not_connected(error: PoolError) -> Failure {
    Failure::Final(match error {
        // Connecting that takes too long is trouble with the connection; waiting for a free one
        // is not.
        PoolError::Timeout(TimeoutType::Wait) => UpstreamError::Timeout,
        PoolError::Backend(error) => refused(error),
        other => UpstreamError::Unreachable(other.into()),
    })
}

/// A failed log-in or a certificate that is not trusted is for an operator to look at; a server
/// that starts up, is full or can't be reached is passing. So it is for several hosts if it is
/// for one of them.
pub(super) fn refused(error: NoHost) -> UpstreamError {
    if is_full(&error) {
        // It is there, and busy with others.
        UpstreamError::Timeout
    } else if error.refusals().all(is_for_an_operator) {
        UpstreamError::Failed(error.into())
    } else {
        UpstreamError::Unreachable(error.into())
    }
}

/// Too many connections, of all or of our role.
pub(super) fn is_full(error: &NoHost) -> bool {
    error.refusals().any(|refusal| match refusal {
        Refusal::Connection(error) => error.code() == Some(&SqlState::TOO_MANY_CONNECTIONS),
        _ => false,
    })
}

fn is_for_an_operator(refusal: &Refusal) -> bool {
    let Refusal::Connection(error) = refusal else { return false };
    let not_let_in = error.code().is_some_and(|code| {
        // 28: invalid authorization, 3D: no such database.
        code.code().starts_with("28") || code.code().starts_with("3D")
    });
    not_let_in || is_distrusted(error)
}

fn is_distrusted(error: &tokio_postgres::Error) -> bool {
    std::error::Error::source(error)
        .and_then(|cause| cause.downcast_ref::<std::io::Error>())
        .and_then(std::io::Error::get_ref)
        .is_some_and(|cause| {
            matches!(cause.downcast_ref(), Some(rustls::Error::InvalidCertificate(_)))
        })
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
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        if cause.is::<std::io::Error>() {
            return true;
        }
        source = cause.source();
    }
    error.is_closed()
}

/// Shut down, crashed, starting up, idle for too long, or anything of class 08, which is what
/// poolers send when they lose a server.
fn ends_the_connection(code: &SqlState) -> bool {
    *code == SqlState::ADMIN_SHUTDOWN
        || *code == SqlState::CRASH_SHUTDOWN
        || *code == SqlState::CANNOT_CONNECT_NOW
        || code.code() == "57P05"
        || code.code().starts_with("08")
}

/// The prepared statement is gone (a pooler gave us another server connection), or the schema
/// changed under it. Prepared afresh it works.
fn is_stale_statement(code: &SqlState, message: &str) -> bool {
    *code == SqlState::INVALID_SQL_STATEMENT_NAME
        || *code == SqlState::DUPLICATE_PSTATEMENT
        || (*code == SqlState::FEATURE_NOT_SUPPORTED && message.contains("cached plan"))
        || (*code == SqlState::PROTOCOL_VIOLATION && message.contains("bind message"))
}
