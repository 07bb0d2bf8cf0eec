//! Checks the settings of the role and the server, and words warnings for the operator.

use super::fields::{field, first};
use super::queries;
use super::reader::Postgres;
use crate::upstream::UpstreamError;

impl Postgres {
    /// Returns warnings about settings that let a statement run longer than any request waits, or
    /// write, and about unsupported versions.
    pub async fn verify(&self) -> Result<Vec<String>, UpstreamError> {
        let rows = self.pool.run(&queries::SETTINGS, &[]).await?;
        let row = first(&rows)?;
        let statement_timeout: Option<i64> = field(row, "statement_timeout_ms")?;
        let read_only: bool = field(row, "read_only")?;
        let version: i32 = field(row, "major_version")?;
        let longest = i64::try_from(self.pool.deadline().as_millis()).unwrap_or(i64::MAX);
        let mut warnings = Vec::new();
        match statement_timeout {
            Some(ms) if (1..=longest).contains(&ms) => {}
            Some(ms) if ms > longest => warnings.push(format!(
                "the role's statement_timeout is {ms} ms, longer than any read waits ({longest} ms): \
                 ALTER ROLE … SET statement_timeout = '600ms'"
            )),
            _ => warnings.push(
                "the role has no statement_timeout: ALTER ROLE … SET statement_timeout = '600ms'"
                    .to_owned(),
            ),
        }
        if !read_only {
            warnings.push(
                "the role may write: ALTER ROLE … SET default_transaction_read_only = on"
                    .to_owned(),
            );
        }
        if version < 13 {
            warnings.push(format!("Postgres {version} is not supported: upgrade to 13 or later"));
        }
        Ok(warnings)
    }
}
