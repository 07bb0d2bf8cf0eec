//! Converts rows to the values of the domain. An unexpected shape is an error for an operator.

use data_encoding::HEXLOWER_PERMISSIVE;
use tokio_postgres::Row;
use tokio_postgres::types::FromSql;

use crate::net::{PgJson, PgText, PgTimestamp};
use crate::registry::arena::{DomainStanding, FitnessSums, StandingGene};
use crate::registry::{
    ApiKeyRecord, Count, DomainCount, GeneCounts, GeneId, GeneSummary, KeyHash, RawEvaluation,
    RawGene, RegistryNumbers, Timestamp,
};
use crate::upstream::{
    Change, ChangeScope, Changes, History, Position, ReadStamp, ServerRun, Snapshot, UpstreamError,
};

use super::queries;

pub(super) fn field<'a, T: FromSql<'a>>(row: &'a Row, name: &str) -> Result<T, UpstreamError> {
    row.try_get(name).map_err(unexpected)
}

/// A field in which NULL means the default value.
fn field_or_default<'a, T>(row: &'a Row, name: &str) -> Result<T, UpstreamError>
where
    T: FromSql<'a> + Default,
{
    field::<Option<T>>(row, name).map(Option::unwrap_or_default)
}

fn text(row: &Row, name: &str) -> Result<Option<String>, UpstreamError> {
    Ok(field::<Option<PgText>>(row, name)?.map(|PgText(text)| text))
}

pub(super) fn time(row: &Row, name: &str) -> Result<Option<Timestamp>, UpstreamError> {
    Ok(field::<Option<PgTimestamp>>(row, name)?.map(|PgTimestamp(at)| at))
}

fn unexpected(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> UpstreamError {
    UpstreamError::Failed(error.into())
}

/// The replication position of a server.
pub(super) fn position(row: &Row) -> Result<Position, UpstreamError> {
    let ReadStamp { read_at, snapshot, server, .. } = stamp(row)?;
    let timeline: Option<i64> = field(row, "timeline")?;
    let wal: Option<i64> = field(row, "wal")?;
    let history = History {
        cluster: field(row, "cluster")?,
        database: field(row, "database")?,
        timeline: timeline.map(u32::try_from).transpose().map_err(unexpected)?,
        started_at: server.map_or(0, |server| server.started_at),
    };
    Ok(Position {
        read_at,
        server,
        snapshot: snapshot.ok_or_else(|| unexpected("a position without a snapshot"))?,
        history,
        wal: wal.map(u64::try_from).transpose().map_err(unexpected)?,
    })
}

/// The stamp of a read.
pub(super) fn stamp(row: &Row) -> Result<ReadStamp, UpstreamError> {
    let PgTimestamp(read_at) = field(row, "read_at")?;
    let PgTimestamp(started_at) = field(row, "started_at")?;
    let snapshot: Snapshot = field::<&str>(row, "snapshot")?.parse().map_err(unexpected)?;
    let is_standby: bool = field(row, "is_standby")?;
    let server = Some(ServerRun { started_at: started_at.as_microsecond(), is_standby });
    let shown = if is_standby { snapshot.max_shown() } else { snapshot.transactions() };
    let snapshot = if is_standby { snapshot.of_standby() } else { snapshot };
    let seen = ReadStamp::new(read_at, Some(snapshot));
    Ok(ReadStamp { server, shown_transactions: shown, ..seen })
}

/// The changes that a poll found.
pub(super) fn changes(row: &Row) -> Result<Changes, UpstreamError> {
    let scopes: Vec<PgText> = field_or_default(row, "scopes")?;
    let xids: Vec<i64> = field_or_default(row, "xids")?;
    let change =
        |(PgText(scope), xid)| Change { scope: parse_scope(&scope), xid: u64::try_from(xid).ok() };
    let mut changes: Vec<_> = scopes.into_iter().zip(xids).map(change).collect();
    let is_of_key = |scope: &ChangeScope| matches!(scope, ChangeScope::Key(_) | ChangeScope::Keys);
    for (every, of_keys) in [(ChangeScope::Genes, false), (ChangeScope::Keys, true)] {
        let is_of_kind = |change: &Change| is_of_key(&change.scope) == of_keys;
        if changes.iter().filter(|change| is_of_kind(change)).count() > queries::MAX_CHANGES {
            changes.retain(|change| !is_of_kind(change) || change.scope == ChangeScope::All);
            changes.push(Change { scope: every, xid: None });
        }
    }
    Ok(Changes::These(changes))
}

/// Parses a scope. One that this release does not know may affect any value.
pub(crate) fn parse_scope(text: &str) -> ChangeScope {
    let scope = match text.split_once(':') {
        Some(("gene", id)) => id.parse().ok().map(ChangeScope::Gene),
        Some(("domain", name)) => Some(ChangeScope::Domain(name.into())),
        Some(("key", hash)) => key_hash(hash).map(ChangeScope::Key),
        None if text == "genes" => Some(ChangeScope::Genes),
        None if text == "keys" => Some(ChangeScope::Keys),
        _ => None,
    };
    scope.unwrap_or(ChangeScope::All)
}

fn key_hash(hex: &str) -> Option<KeyHash> {
    let hash = HEXLOWER_PERMISSIVE.decode(hex.as_bytes()).ok()?;
    hash.try_into().ok().map(KeyHash)
}

/// What pages and phenotypes show of a gene; `None` if the row has no gene.
fn gene(row: &Row) -> Result<Option<RawGene>, UpstreamError> {
    let Some(id) = field(row, "id")? else { return Ok(None) };
    Ok(Some(RawGene {
        id,
        name: text(row, "name")?,
        domain: text(row, "domain")?,
        fidelity: text(row, "fidelity")?,
        fitness_score: field(row, "fitness_score")?,
        reputation_score: field(row, "reputation_score")?,
        ..RawGene::default()
    }))
}

/// A gene of a page, with its arena history; `None` for the row of an empty page.
pub(super) fn listed_gene(row: &Row) -> Result<Option<GeneSummary>, UpstreamError> {
    let Some(gene) = gene(row)? else { return Ok(None) };
    let gene = RawGene {
        description: text(row, "description")?,
        owner: text(row, "owner")?,
        downloads: field(row, "downloads")?,
        arena_rank: field(row, "arena_rank")?,
        ..gene
    };
    let fitness: Vec<f64> = field_or_default(row, "fitness_values")?;
    let times: Vec<PgTimestamp> = field_or_default(row, "times")?;
    let calls: Vec<i64> = field_or_default(row, "calls")?;
    let evaluations = fitness.into_iter().zip(times).zip(calls);
    let evaluation = |((fitness_value, PgTimestamp(evaluated_at)), calls)| RawEvaluation {
        fitness_value,
        evaluated_at,
        total_calls: Some(calls),
    };
    Ok(Some(gene.into_summary(evaluations.map(evaluation).collect())?))
}

/// A gene with its phenotype; `None` if there is no such gene.
pub(super) fn gene_with_phenotype(row: &Row) -> Result<Option<RawGene>, UpstreamError> {
    let Some(gene) = gene(row)? else { return Ok(None) };
    Ok(Some(RawGene {
        phenotype: field::<Option<PgJson>>(row, "phenotype")?.map(|PgJson(json)| json),
        install_command: text(row, "install_command")?,
        min_playground_version: text(row, "min_playground_version")?,
        required_fidelity: text(row, "required_fidelity")?,
        ..gene
    }))
}

/// The sums that a domain's arena is computed of. Every row contains them.
pub(super) fn standing(rows: &[Row]) -> Result<DomainStanding, UpstreamError> {
    let first = &rows[0];
    let top_then: Vec<uuid::Uuid> = field(first, "top_then")?;
    let top_now: Result<Vec<_>, _> =
        rows.iter().filter_map(|row| top_gene(row).transpose()).collect();
    Ok(DomainStanding {
        gene_count: field(first, "gene_count")?,
        fitness: FitnessSums {
            scale: field(first, "scale")?,
            positive: field(first, "positive")?,
            sum: field(first, "sum")?,
            sum_f_ln_f: field(first, "sum_f_ln_f")?,
        },
        evaluated_count: field(first, "evaluated_count")?,
        evaluated_sum: field(first, "evaluated_sum")?,
        evaluations: field(first, "evaluations")?,
        top_now: top_now?,
        top_then: top_then.into_iter().map(GeneId::from).collect(),
    })
}

pub(super) fn counts(row: &Row) -> Result<GeneCounts, UpstreamError> {
    let [total, broken] = [field(row, "total")?, field(row, "broken")?].map(Count::saturating);
    Ok(GeneCounts { total, broken })
}

pub(super) fn numbers(rows: &[Row]) -> Result<RegistryNumbers, UpstreamError> {
    let count = |row, name| field(row, name).map(Count::saturating);
    let mut domains = Vec::with_capacity(rows.len());
    for row in rows {
        if let Some(domain) = text(row, "domain")? {
            domains.push(DomainCount { domain, genes: count(row, "genes")? });
        }
    }
    let (genes, total_domains) = (count(&rows[0], "all_genes")?, count(&rows[0], "all_domains")?);
    Ok(RegistryNumbers { genes, total_domains, domains })
}

fn top_gene(row: &Row) -> Result<Option<StandingGene>, UpstreamError> {
    let Some(id) = field::<Option<uuid::Uuid>>(row, "id")? else { return Ok(None) };
    Ok(Some(StandingGene {
        id: id.into(),
        name: text(row, "name")?.unwrap_or_default(),
        // Turns -0 into 0.
        fitness: field::<f64>(row, "fitness")? + 0.0,
        newest_evaluations: field(row, "newest")?,
    }))
}

/// The record of the API key with this hash; `None` if there is none.
pub(super) fn api_key(row: &Row, hash: KeyHash) -> Result<Option<ApiKeyRecord>, UpstreamError> {
    if !field::<bool>(row, "found")? {
        return Ok(None);
    }
    let limit: i64 = field(row, "rate_limit_per_minute")?;
    let scopes: Vec<Option<PgText>> = field_or_default(row, "scopes")?;
    Ok(Some(ApiKeyRecord {
        hash,
        prefix: text(row, "prefix")?.unwrap_or_default(),
        owner: text(row, "owner")?.unwrap_or_default(),
        name: text(row, "name")?.unwrap_or_default(),
        scopes: scopes.into_iter().flatten().map(|PgText(scope)| scope).collect(),
        rate_limit_per_minute: u32::try_from(limit).unwrap_or(0),
        // Infinity means never.
        expires_at: time(row, "expires_at")?.filter(|at| *at < Timestamp::MAX),
        revoked_at: time(row, "revoked_at")?,
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
        assert_eq!(parse_scope("genes"), ChangeScope::Genes);
        assert_eq!(parse_scope("keys"), ChangeScope::Keys);
        for other in ["all", "", "gene:x", "key:0f", "planet:earth"] {
            assert_eq!(parse_scope(other), ChangeScope::All, "{other}");
        }
    }
}
