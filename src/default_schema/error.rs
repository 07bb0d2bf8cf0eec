//! Why a statement on the default schema failed, with the remedy.

use std::error::Error as _;
use std::io;

use thiserror::Error;
use tokio_postgres::error::SqlState;

/// Why a statement failed.
#[derive(Debug, Error)]
pub enum StatementError {
    /// A table or function does not exist.
    #[error(
        "{0}. The default schema is missing, or older than this release; run gene-registry migrate. \
         A registry that has views of its own cannot use this command"
    )]
    NoSchema(String),
    /// The user lacks a privilege, or the user or the server is read-only.
    #[error(
        "{0}. Run the command on the primary, as the owner of the schema registry or, before the first \
         migration, of the database"
    )]
    Forbidden(String),
    /// The database rejected the statement, or returned something unexpected.
    #[error("the database rejected a statement")]
    Rejected(#[source] tokio_postgres::Error),
    /// The connection was lost.
    #[error("the connection to the database was lost")]
    Lost(#[source] tokio_postgres::Error),
}

const NO_SCHEMA: [SqlState; 4] = [
    SqlState::INVALID_SCHEMA_NAME,
    SqlState::UNDEFINED_TABLE,
    SqlState::UNDEFINED_COLUMN,
    SqlState::UNDEFINED_FUNCTION,
];

const FORBIDDEN: [SqlState; 2] =
    [SqlState::INSUFFICIENT_PRIVILEGE, SqlState::READ_ONLY_SQL_TRANSACTION];

impl From<tokio_postgres::Error> for StatementError {
    fn from(error: tokio_postgres::Error) -> Self {
        match error.as_db_error() {
            Some(rejected) if NO_SCHEMA.contains(rejected.code()) => {
                Self::NoSchema(rejected.message().to_owned())
            }
            Some(rejected) if FORBIDDEN.contains(rejected.code()) => {
                Self::Forbidden(rejected.message().to_owned())
            }
            None if error.is_closed() || error.source().is_some_and(|it| it.is::<io::Error>()) => {
                Self::Lost(error)
            }
            _ => Self::Rejected(error),
        }
    }
}
