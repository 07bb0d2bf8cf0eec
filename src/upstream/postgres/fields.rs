//! Access to the rows and fields of a result. An unexpected shape is an error for an operator.

use tokio_postgres::Row;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::FromSql;

use crate::upstream::UpstreamError;

/// The first row; every statement of the read path returns at least one.
pub(super) fn first(rows: &[Row]) -> Result<&Row, UpstreamError> {
    rows.first().ok_or_else(|| unexpected("a result without rows"))
}

pub(super) fn field<'a, T: FromSql<'a>>(row: &'a Row, name: &str) -> Result<T, UpstreamError> {
    row.try_get(name).map_err(unexpected)
}

pub(super) fn unexpected(
    error: impl Into<Box<dyn std::error::Error + Send + Sync>>,
) -> UpstreamError {
    UpstreamError::Failed(error.into())
}

/// The SQL state of a failed statement.
pub(super) fn sql_state(error: &UpstreamError) -> Option<&SqlState> {
    let UpstreamError::Failed(cause) = error else { return None };
    cause.downcast_ref::<tokio_postgres::Error>()?.code()
}
