//! The standbys: whether they can be read, belong to the history of the primary, and keep up.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::finding::Finding;
use crate::config::UpstreamConfig;
use crate::ops::error_chain;
use crate::upstream::{ChangeFeed, Position, Postgres, Upstream, UpstreamError};

pub(super) const CHECK: &str = "standbys";

/// Interval between two readings of a standby's position.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Timeouts of the service are too short for a first connection over a slow network.
const MIN_TIMEOUT_MS: u64 = 5_000;

pub(super) async fn check(config: &UpstreamConfig) -> Result<Vec<Finding>, UpstreamError> {
    if config.read_urls.is_empty() {
        return Ok(Vec::new());
    }
    let config = UpstreamConfig {
        wait_ms: config.wait_ms.max(MIN_TIMEOUT_MS),
        connect_ms: config.connect_ms.max(MIN_TIMEOUT_MS),
        query_ms: config.query_ms.max(MIN_TIMEOUT_MS),
        deadline_ms: config.deadline_ms.max(4 * MIN_TIMEOUT_MS),
        ..config.clone()
    };
    let postgres = Postgres::new(&config, String::new())
        .map_err(|error| UpstreamError::Unreachable(error.into()))?;
    let primary = postgres.position().await?;
    if primary.history.cluster.is_none() || primary.history.timeline.is_none() {
        let message = "the primary does not report its replication position, so no standby is read";
        let remedy = "Grant EXECUTE on pg_control_system(), pg_walfile_name(pg_lsn) and the other \
                      functions in docs/operations.md, or remove upstream.read_urls.";
        return Ok(vec![Finding::warning(CHECK, message.to_owned(), remedy)]);
    }
    let mut findings = Vec::new();
    for (index, standby) in postgres.standbys().each.iter().enumerate() {
        let name = format!("entry {} of upstream.read_urls", index + 1);
        findings.extend(check_standby(&name, standby, &primary, config.max_lag_ms).await);
    }
    Ok(findings)
}

async fn check_standby(
    name: &str,
    standby: &Arc<dyn Upstream>,
    primary: &Position,
    max_lag_ms: u64,
) -> Option<Finding> {
    let warning = |problem: String, remedy: &str| {
        let message = format!("{name} {problem}, so the primary is read instead");
        Some(Finding::warning(CHECK, message, remedy))
    };
    let end = Instant::now() + Duration::from_millis(max_lag_ms);
    loop {
        let position = match standby.position().await {
            Ok(position) => position,
            Err(error) => {
                let problem = format!("cannot be read: {}", error_chain(&error));
                return warning(problem, "Start the standby, or correct or remove its URL.");
            }
        };
        let (ours, its) = (&primary.history, &position.history);
        if ours.cluster != its.cluster || ours.database != its.database {
            let problem = "is another database than that of upstream.url".to_owned();
            return warning(problem, "Correct its URL.");
        }
        if !ours.is_proven_by(its) {
            let timeline =
                |timeline: Option<u32>| timeline.map_or("unknown".into(), |it| it.to_string());
            let problem = format!(
                "is on timeline {}, and the primary on {}",
                timeline(its.timeline),
                timeline(ours.timeline)
            );
            let remedy = "Let it follow the present primary (recovery_target_timeline = latest), or \
                          rebuild it with pg_basebackup.";
            return warning(problem, remedy);
        }
        if position.wal >= primary.wal {
            return None;
        }
        if Instant::now() >= end {
            let problem = format!("lags by more than upstream.max_lag_ms ({max_lag_ms} ms)");
            return warning(problem, "Find out what delays its replay: pg_stat_replication.");
        }
        sleep(POLL_INTERVAL).await;
    }
}
