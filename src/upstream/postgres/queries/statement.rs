//! A statement with the types of its parameters.

use tokio_postgres::types::Type;

/// A statement and the types of its parameters.
#[derive(Debug, Clone, Copy)]
pub(in crate::upstream::postgres) struct Statement {
    pub(in crate::upstream::postgres) sql: &'static str,
    /// The types of `$1`, `$2`, …
    pub(in crate::upstream::postgres) types: &'static [Type],
}
