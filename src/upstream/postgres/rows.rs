//! Converts rows to the values of the domain.

use std::error::Error;

use data_encoding::HEXLOWER_PERMISSIVE;
use tokio_postgres::Row;

use crate::registry::arena::{DomainStanding, FitnessSums, StandingGene};
use crate::registry::{ApiKeyRecord, GeneId, KeyHash, RawEvaluation, RawGene, Timestamp};
use crate::upstream::{Change, ChangeScope, Changes, Position, ReadStamp, Snapshot, UpstreamError};

use super::queries;
use super::timestamp::PgTimestamp;

/// The replication position of a server.
pub(super) fn position(row: &Row) -> Result<Position, Box<dyn Error + Sync + Send>> {
    let seen = try_stamp(row)?;
    let wal: Option<i64> = row.try_get("wal")?;
    let timeline: Option<&str> = row.try_get("timeline")?;
    Ok(Position {
        read_at: seen.read_at,
        snapshot: seen.snapshot.ok_or("a position without a snapshot")?,
        is_standby: row.try_get("is_standby")?,
        wal: u64::try_from(wal.unwrap_or(0))?,
        timeline: timeline.map(|digits| u32::from_str_radix(digits, 16)).transpose()?,
    })
}

/// The stamp of a read.
pub(super) fn stamp(row: &Row) -> Result<ReadStamp, UpstreamError> {
    try_stamp(row).map_err(UpstreamError::Failed)
}

fn try_stamp(row: &Row) -> Result<ReadStamp, Box<dyn Error + Sync + Send>> {
    let PgTimestamp(read_at) = row.try_get("read_at")?;
    let snapshot: Snapshot = row.try_get::<_, &str>("snapshot")?.parse()?;
    let is_standby: bool = row.try_get("is_standby")?;
    let snapshot = if is_standby { snapshot.of_standby() } else { snapshot };
    Ok(ReadStamp::new(read_at, Some(snapshot)))
}

/// The changes that a poll found.
pub(super) fn changes(rows: &[Row]) -> Result<Changes, tokio_postgres::Error> {
    if rows.len() > queries::MAX_CHANGES {
        return Ok(Changes::TooMany);
    }
    let mut changes = Vec::with_capacity(rows.len());
    for row in rows {
        if let Some(xid) = row.try_get::<_, Option<i64>>("xid")? {
            let scope: Option<&str> = row.try_get("scope")?;
            let xid = u64::try_from(xid).unwrap_or(0);
            changes.push(Change { scope: scope.map_or(ChangeScope::All, parse_scope), xid });
        }
    }
    Ok(Changes::These(changes))
}

/// Parses a scope. One that this release does not know may affect any value.
fn parse_scope(text: &str) -> ChangeScope {
    let scope = match text.split_once(':') {
        Some(("gene", id)) => id.parse().ok().map(ChangeScope::Gene),
        Some(("domain", name)) => Some(ChangeScope::Domain(name.into())),
        Some(("key", hash)) => key_hash(hash).map(ChangeScope::Key),
        _ => None,
    };
    scope.unwrap_or(ChangeScope::All)
}

fn key_hash(hex: &str) -> Option<KeyHash> {
    let hash = HEXLOWER_PERMISSIVE.decode(hex.as_bytes()).ok()?;
    hash.try_into().ok().map(KeyHash)
}

/// A gene of a page, with its arena history; `None` for the row of an empty page.
pub(super) fn listed_gene(
    row: &Row,
) -> Result<Option<(RawGene, Vec<RawEvaluation>)>, tokio_postgres::Error> {
    let Some(id) = row.try_get("id")? else { return Ok(None) };
    let gene = RawGene {
        id,
        name: row.try_get("name")?,
        domain: row.try_get("domain")?,
        fidelity: row.try_get("fidelity")?,
        description: row.try_get("description")?,
        owner: row.try_get("owner")?,
        fitness_score: row.try_get("fitness_score")?,
        reputation_score: row.try_get("reputation_score")?,
        downloads: row.try_get("downloads")?,
        arena_rank: row.try_get("arena_rank")?,
        ..RawGene::default()
    };
    Ok(Some((gene, history(row)?)))
}

fn history(row: &Row) -> Result<Vec<RawEvaluation>, tokio_postgres::Error> {
    let fitness: Option<Vec<f64>> = row.try_get("fitness_values")?;
    let times: Option<Vec<PgTimestamp>> = row.try_get("times")?;
    let calls: Option<Vec<i64>> = row.try_get("calls")?;
    let evaluations = fitness
        .unwrap_or_default()
        .into_iter()
        .zip(times.unwrap_or_default())
        .zip(calls.unwrap_or_default())
        .map(|((fitness_value, PgTimestamp(evaluated_at)), calls)| RawEvaluation {
            fitness_value,
            evaluated_at,
            total_calls: Some(calls),
        });
    Ok(evaluations.collect())
}

/// A gene with its phenotype; `None` if there is no such gene.
pub(super) fn gene_with_phenotype(row: &Row) -> Result<Option<RawGene>, tokio_postgres::Error> {
    let Some(id) = row.try_get("id")? else { return Ok(None) };
    Ok(Some(RawGene {
        id,
        name: row.try_get("name")?,
        domain: row.try_get("domain")?,
        fidelity: row.try_get("fidelity")?,
        fitness_score: row.try_get("fitness_score")?,
        reputation_score: row.try_get("reputation_score")?,
        phenotype: row.try_get("phenotype")?,
        install_command: row.try_get("install_command")?,
        min_playground_version: row.try_get("min_playground_version")?,
        required_fidelity: row.try_get("required_fidelity")?,
        ..RawGene::default()
    }))
}

/// The sums that a domain's arena is computed of. Every row contains them.
pub(super) fn standing(first: &Row, rows: &[Row]) -> Result<DomainStanding, tokio_postgres::Error> {
    let top_then: Vec<uuid::Uuid> = first.try_get("top_then")?;
    let top_now: Result<Vec<_>, _> =
        rows.iter().filter_map(|row| top_gene(row).transpose()).collect();
    Ok(DomainStanding {
        gene_count: first.try_get("gene_count")?,
        fitness: FitnessSums {
            scale: first.try_get("scale")?,
            positive: first.try_get("positive")?,
            sum: first.try_get("sum")?,
            sum_f_ln_f: first.try_get("sum_f_ln_f")?,
        },
        evaluated_count: first.try_get("evaluated_count")?,
        evaluated_sum: first.try_get("evaluated_sum")?,
        evaluations: first.try_get("evaluations")?,
        top_now: top_now?,
        top_then: top_then.into_iter().map(GeneId::from).collect(),
    })
}

fn top_gene(row: &Row) -> Result<Option<StandingGene>, tokio_postgres::Error> {
    let Some(id) = row.try_get::<_, Option<uuid::Uuid>>("id")? else { return Ok(None) };
    Ok(Some(StandingGene {
        id: id.into(),
        name: row.try_get::<_, Option<String>>("name")?.unwrap_or_default(),
        // Turns -0 into 0.
        fitness: row.try_get::<_, f64>("fitness")? + 0.0,
        newest_evaluations: row.try_get("newest")?,
    }))
}

/// The record of the API key with this hash; `None` if there is none.
pub(super) fn api_key(
    row: &Row,
    hash: KeyHash,
) -> Result<Option<ApiKeyRecord>, tokio_postgres::Error> {
    if !row.try_get::<_, bool>("found")? {
        return Ok(None);
    }
    let limit: i64 = row.try_get("rate_limit_per_minute")?;
    let scopes: Option<Vec<Option<String>>> = row.try_get("scopes")?;
    let expires_at: Option<PgTimestamp> = row.try_get("expires_at")?;
    let revoked_at: Option<PgTimestamp> = row.try_get("revoked_at")?;
    let text = |name| row.try_get::<_, Option<String>>(name).map(Option::unwrap_or_default);
    Ok(Some(ApiKeyRecord {
        hash,
        prefix: text("prefix")?,
        owner: text("owner")?,
        name: text("name")?,
        scopes: scopes.unwrap_or_default().into_iter().flatten().collect(),
        rate_limit_per_minute: u32::try_from(limit).unwrap_or(0),
        // Infinity means never.
        expires_at: expires_at.map(|PgTimestamp(at)| at).filter(|at| *at < Timestamp::MAX),
        revoked_at: revoked_at.map(|PgTimestamp(at)| at),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scope_of_unknown_form_affects_everything() {
        let id = "0a1b2c3d-0000-1000-8000-00805f9b34fb";
        let gene = parse_scope(&format!("gene:{id}"));
        assert_eq!(gene, ChangeScope::Gene(id.parse().expect("an id")));
        assert_eq!(parse_scope("domain:a:b"), ChangeScope::Domain("a:b".into()));
        assert_eq!(
            parse_scope(&format!("key:{}", "0f".repeat(32))),
            ChangeScope::Key(KeyHash([15; 32]))
        );
        for other in ["all", "", "gene:x", "key:0f", "planet:earth", "genes"] {
            assert_eq!(parse_scope(other), ChangeScope::All, "{other}");
        }
    }
}
