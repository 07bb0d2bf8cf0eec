//! How long the statements for searches and insights take. Those that take longer than
//! `upstream.query_ms` end with an error for the client.

use std::time::{Duration, Instant};

use tokio_postgres::Error;

use super::finding::Finding;
use super::session::Session;
use super::statements::ServiceStatement;

/// All measurements together take little longer.
const MAX_TOTAL: Duration = Duration::from_secs(4);

/// One finding for each group of statements in which some take too long.
pub(super) async fn check(
    session: &mut Session,
    check: &'static str,
    statements: &[ServiceStatement],
    query_ms: u64,
) -> Result<Vec<Finding>, Error> {
    let mut findings = Vec::new();
    let begun = Instant::now();
    let limit = Duration::from_millis(query_ms).min(MAX_TOTAL);
    // There are many searches.
    for group in ["insights", "searches"] {
        let mut slow = Vec::new();
        for one in statements.iter().filter(|one| one.group == group) {
            if begun.elapsed() >= MAX_TOTAL {
                break;
            }
            let took = duration(session, limit, one).await?;
            if took.as_millis() > u128::from(query_ms) {
                slow.push((took, one.name.as_str()));
            }
        }
        findings.extend(finding(check, &slow, query_ms));
    }
    Ok(findings)
}

/// Zero if the statement fails: `rows` reports values that cannot be read.
async fn duration(
    session: &mut Session,
    limit: Duration,
    one: &ServiceStatement,
) -> Result<Duration, Error> {
    let mut took = Duration::ZERO;
    // The first time, its rows may have to be read from the disk.
    for _ in 0..2 {
        took = match session.duration(limit, &one.statement.sql, &one.values()).await {
            Err(error) if error.as_db_error().is_some() => Duration::ZERO,
            result => result?,
        };
        if took <= limit {
            break;
        }
    }
    Ok(took)
}

fn finding(check: &'static str, slow: &[(Duration, &str)], query_ms: u64) -> Option<Finding> {
    let (took, name) = slow.iter().max_by_key(|(took, _)| *took)?;
    let others = match slow.len() - 1 {
        0 => String::new(),
        count => format!(", nor did {count} more statements"),
    };
    let message = format!(
        "{name} did not end within upstream.query_ms ({query_ms} ms), but took at least {} ms{others}",
        took.as_millis()
    );
    Some(Finding::serious(check, message, SLOW))
}

/// What makes statements fast.
pub(super) const SLOW: &str = "Create the indexes that doctor names, and run VACUUM ANALYZE on the \
                               tables. If that is not enough, take id, domain, fidelity and the three \
                               numbers by which genes are sorted from one table: see the section \
                               Indexes of docs/upstream.md.";
