//! Reads the change log and the replication position from Postgres.

use std::sync::atomic::Ordering;

use async_trait::async_trait;
use tokio_postgres::Row;
use tokio_postgres::error::SqlState;

use super::failure::sql_state;
use super::foreign_changes::ForeignChanges;
use super::queries::{self, Statement};
use super::reader::Postgres;
use super::rows::{self, field, stamp, time};
use super::url::HostRole;
use crate::ops::error_chain;
use crate::registry::Timestamp;
use crate::sync::lock;
use crate::upstream::change::HORIZON_HOURS;
use crate::upstream::{ChangeFeed, Changes, Position, Read, Snapshot, UpstreamError};

#[async_trait]
impl ChangeFeed for Postgres {
    async fn changes(&self, since: Option<&Snapshot>) -> Result<Read<Changes>, UpstreamError> {
        if let Some(since) = since {
            let running: Vec<_> = since.running().iter().map(u64::to_string).collect();
            let (xmax, running) = (since.xmax().to_string(), format!("{{{}}}", running.join(",")));
            match self.side_pool.run(&queries::CHANGES_SINCE, &[&xmax, &running]).await {
                Err(error) if sql_state(&error) == Some(&SqlState::UNDEFINED_TABLE) => {}
                found => return self.found_changes(&found?[0], false),
            }
        }
        let row = &self.side_pool.run(&queries::HAS_LOG, &[]).await?[0];
        if !field::<bool>(row, "has_log")? {
            return Ok(Read { value: Changes::NoLog, seen: stamp(row)? });
        }
        let hours = HORIZON_HOURS as i32;
        let rows = self.side_pool.run(&queries::CHANGES_OF_HORIZON, &[&hours]).await?;
        self.found_changes(&rows[0], true)
    }

    async fn changed_at(&self, xid: u64) -> Result<Option<Timestamp>, UpstreamError> {
        let rows = self.side_pool.run(&queries::CHANGED_AT, &[&xid.to_string()]).await?;
        time(&rows[0], "changed_at")
    }

    async fn position(&self) -> Result<Position, UpstreamError> {
        let mut found = self.side_pool.run(self.position_statement(), &[]).await;
        if let Err(error) = &found
            && is_unsupported(error)
            // Not tried again: each poll would log an error in the registry's database.
            && !self.hides_position.swap(true, Ordering::Relaxed)
        {
            tracing::warn!(
                error = error_chain(error),
                "the database does not report its replication position: only a restart is \
                 detected as another history, and standbys are not read"
            );
            found = self.side_pool.run(self.position_statement(), &[]).await;
        }
        let position = rows::position(&found?[0])?;
        let is_standby = position.server.is_some_and(|server| server.is_standby);
        if is_standby && self.hosts.target.role == HostRole::Primary {
            // A proxy in between has switched to another server.
            self.reconnect();
            return Err(UpstreamError::Unreachable("connected to a standby".into()));
        }
        Ok(position)
    }

    fn reconnect(&self) {
        *lock(&self.foreign) = ForeignChanges::default();
        self.pool.renew();
        self.side_pool.renew();
    }
}

impl Postgres {
    fn position_statement(&self) -> &'static Statement {
        let is_hidden = self.hides_position.load(Ordering::Relaxed);
        if is_hidden { &queries::SERVER } else { &queries::POSITION }
    }

    /// The changes that a poll found.
    fn found_changes(&self, row: &Row, is_first: bool) -> Result<Read<Changes>, UpstreamError> {
        let (count, newest) = (field(row, "foreign_count")?, time(row, "foreign_newest")?);
        let is_foreign = lock(&self.foreign).is_log_foreign(count, newest, is_first);
        let value = if is_foreign { Changes::NoLog } else { rows::changes(row)? };
        Ok(Read { value, seen: stamp(row)? })
    }
}

/// Whether the server lacks what the statement needs, or denies it.
fn is_unsupported(error: &UpstreamError) -> bool {
    sql_state(error).is_some_and(|state| {
        [
            SqlState::UNDEFINED_FUNCTION,
            SqlState::INSUFFICIENT_PRIVILEGE,
            SqlState::FEATURE_NOT_SUPPORTED,
        ]
        .contains(state)
    })
}
