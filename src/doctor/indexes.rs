//! The service's own statements: whether they can be planned, how long they take, and which tables they
//! read or sort as a whole.

use std::collections::{BTreeMap, BTreeSet};

use tokio_postgres::Error;

use super::finding::Finding;
use super::plan::{ScannedTable, costly_steps, plan};
use super::session::Session;
use super::speed::{self, SLOW};
use super::statements::{ServiceStatement, statements};
use super::suggested_index::suggested_indexes;
use crate::config::UpstreamConfig;
use crate::ops::error_chain;

pub(super) const CHECK: &str = "indexes";

/// What an index can serve is read by it, also in a small table.
const USE_INDEXES: &str = "SET LOCAL enable_seqscan = off";

/// What the statements read, by the names of their groups.
#[derive(Default)]
struct Plans {
    /// Tables that no index can replace.
    scanned: BTreeMap<ScannedTable, &'static str>,
    /// What searches do with many rows, and one that does.
    costly: BTreeMap<String, String>,
}

/// `has_log`: whether there is a change log.
pub(super) async fn check(
    session: &mut Session,
    config: &UpstreamConfig,
    has_log: bool,
) -> Result<Vec<Finding>, Error> {
    let statements = statements(session).await?;
    let (plans, failed) = plans(session, &statements).await?;
    if !failed.is_empty() {
        return Ok(failed);
    }
    let (mut findings, known) = missing_indexes(session, has_log).await?;
    let scanned = plans.scanned.into_iter().filter(|(table, _)| !known.contains(table));
    let scanned = scanned.map(|(table, group)| {
        let message = format!("the statement for {group} reads the whole table {table}");
        let remedy = "Create an index on the columns by which the view reads it, or a table that the \
                      view reads alone.";
        Finding::warning(CHECK, message, remedy)
    });
    findings.extend(scanned);
    // Missing indexes are reason enough for these.
    if findings.is_empty() {
        let costly = plans.costly.into_iter();
        findings.extend(
            costly.map(|(step, name)| Finding::warning(CHECK, format!("{name}, {step}"), SLOW)),
        );
    }
    findings.extend(speed::check(session, CHECK, &statements, config.query_ms).await?);
    Ok(findings)
}

/// The plans of all statements, and those that fail.
async fn plans(
    session: &mut Session,
    statements: &[ServiceStatement],
) -> Result<(Plans, Vec<Finding>), Error> {
    let (mut failed, mut plans) = (BTreeMap::new(), Plans::default());
    for one in statements {
        let (sql, values) = (&one.statement.sql, one.values());
        match plan(session, USE_INDEXES, sql, &values).await {
            Ok(plan) => {
                let tables = ScannedTable::all_in(&plan).into_iter();
                plans.scanned.extend(tables.map(|table| (table, one.group)));
            }
            Err(error) => {
                failed.insert(one.group, error_chain(&error));
                continue;
            }
        }
        if one.group == "searches" {
            let steps = costly_steps(&plan(session, "", sql, &values).await?);
            plans.costly.extend(steps.into_iter().map(|step| (step, one.name.clone())));
        }
    }
    let findings = failed.into_iter().map(|(group, error)| {
        let message = format!("the statement for {group} fails: {error}");
        let remedy = "Correct the view, or grant its owner the right to read its tables: see \
                      docs/upstream.md.";
        Finding::serious(CHECK, message, remedy)
    });
    Ok((plans, findings.collect()))
}

/// Indexes to create, and the tables on which they are.
async fn missing_indexes(
    session: &mut Session,
    has_log: bool,
) -> Result<(Vec<Finding>, BTreeSet<ScannedTable>), Error> {
    let (mut findings, mut known) = (Vec::new(), BTreeSet::new());
    for index in suggested_indexes(has_log) {
        let plan = plan(session, USE_INDEXES, &index.statement(), &[]).await?;
        let tables = ScannedTable::all_in(&plan);
        if !tables.is_empty()
            && let Some((table, remedy)) = index.create(session).await?
            && tables.contains(&table)
        {
            let message = format!("{} reads the whole table {table}", index.purpose);
            findings.push(Finding::warning(CHECK, message, remedy));
            known.insert(table);
        }
    }
    Ok((findings, known))
}
