//! From rows to what the domain reads.

use std::error::Error;

use tokio_postgres::Row;
use tokio_postgres::types::{
    FromSql, IsNull, ToSql, Type, accepts, private::BytesMut, to_sql_checked,
};

use crate::registry::arena::{DomainStanding, FitnessSums, StandingGene};
use crate::registry::{ApiKeyRecord, GeneId, KeyHash, RawEvaluation, RawGene, Timestamp};
use crate::upstream::{Change, ChangeScope, Changes, Position, ReadStamp, Snapshot};

use super::queries;

/// Microseconds from 1970 to 2000, where Postgres begins to count.
const EPOCH: i64 = 946_684_800_000_000;

/// A `timestamptz`. Infinities and what lies beyond [`Timestamp`]'s range are its ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Moment(pub(super) Timestamp);

impl<'a> FromSql<'a> for Moment {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        let micros = i64::from_be_bytes(raw.try_into()?);
        let end = if micros < 0 { Timestamp::MIN } else { Timestamp::MAX };
        let since_1970 =
            micros.checked_add(EPOCH).and_then(|m| Timestamp::from_microsecond(m).ok());
        Ok(Self(since_1970.unwrap_or(end)))
    }

    accepts!(TIMESTAMPTZ);
}

impl ToSql for Moment {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        // Postgres knows no time before 4714 BC; as a bound its -infinity means the same.
        let earliest = -211_813_488_000_000_000;
        let micros = self.0.as_microsecond() - EPOCH;
        let micros = if micros < earliest { i64::MIN } else { micros };
        out.extend_from_slice(&micros.to_be_bytes());
        Ok(IsNull::No)
    }

    accepts!(TIMESTAMPTZ);
    to_sql_checked!();
}

/// Where a server is in its database's history.
pub(super) fn position(row: &Row) -> Result<Position, Box<dyn Error + Sync + Send>> {
    let seen = seen(row)?;
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

/// When the statement read, and in which state of the database.
pub(super) fn seen(row: &Row) -> Result<ReadStamp, Box<dyn Error + Sync + Send>> {
    let Moment(read_at) = row.try_get("read_at")?;
    let snapshot: Snapshot = row.try_get::<_, &str>("snapshot")?.parse()?;
    let is_standby: bool = row.try_get("is_standby")?;
    let snapshot = if is_standby { snapshot.of_standby() } else { snapshot };
    Ok(ReadStamp::new(read_at, Some(snapshot)))
}

/// The changes that a look found.
pub(super) fn changes(rows: &[Row]) -> Result<Changes, tokio_postgres::Error> {
    if rows.len() > queries::MANY_CHANGES {
        return Ok(Changes::TooMany);
    }
    let mut changes = Vec::with_capacity(rows.len());
    for row in rows {
        if let Some(xid) = row.try_get::<_, Option<i64>>("xid")? {
            let scope: Option<&str> = row.try_get("scope")?;
            let xid = u64::try_from(xid).unwrap_or(0);
            changes.push(Change { scope: scope.map_or(ChangeScope::All, scope_of), xid });
        }
    }
    Ok(Changes::These(changes))
}

/// A scope of a form that this release does not know may concern anything.
fn scope_of(text: &str) -> ChangeScope {
    let scope = match text.split_once(':') {
        Some(("gene", id)) => id.parse().ok().map(ChangeScope::Gene),
        Some(("domain", name)) => Some(ChangeScope::Domain(name.into())),
        Some(("key", hash)) => key_hash(hash).map(ChangeScope::Key),
        _ => None,
    };
    scope.unwrap_or(ChangeScope::All)
}

fn key_hash(hex: &str) -> Option<KeyHash> {
    let mut hash = [0; 32];
    if hex.len() != 2 * hash.len() || !hex.is_ascii() {
        return None;
    }
    for (byte, at) in hash.iter_mut().zip((0..hex.len()).step_by(2)) {
        *byte = u8::from_str_radix(&hex[at..at + 2], 16).ok()?;
    }
    Some(KeyHash(hash))
}

/// A gene of a list, with its history; `None` for the row of an empty page.
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
    let times: Option<Vec<Moment>> = row.try_get("times")?;
    let calls: Option<Vec<i64>> = row.try_get("calls")?;
    let evaluations = fitness
        .unwrap_or_default()
        .into_iter()
        .zip(times.unwrap_or_default())
        .zip(calls.unwrap_or_default())
        .map(|((fitness_value, Moment(evaluated_at)), calls)| RawEvaluation {
            fitness_value,
            evaluated_at,
            total_calls: Some(calls),
        });
    Ok(evaluations.collect())
}

/// A gene with its phenotype; `None` where there is no such gene.
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

/// What a domain's numbers are computed from. The sums stand in every row.
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
        // Postgres would show -0.
        fitness: row.try_get::<_, f64>("fitness")? + 0.0,
        newest_evaluations: row.try_get("newest")?,
    }))
}

/// The record of the API key with this hash, where there is one.
pub(super) fn api_key(
    row: &Row,
    hash: KeyHash,
) -> Result<Option<ApiKeyRecord>, tokio_postgres::Error> {
    if !row.try_get::<_, bool>("found")? {
        return Ok(None);
    }
    let limit: i64 = row.try_get("rate_limit_per_minute")?;
    let scopes: Option<Vec<Option<String>>> = row.try_get("scopes")?;
    let expires_at: Option<Moment> = row.try_get("expires_at")?;
    let revoked_at: Option<Moment> = row.try_get("revoked_at")?;
    let text = |name| row.try_get::<_, Option<String>>(name).map(Option::unwrap_or_default);
    Ok(Some(ApiKeyRecord {
        hash,
        prefix: text("prefix")?,
        owner: text("owner")?,
        name: text("name")?,
        scopes: scopes.unwrap_or_default().into_iter().flatten().collect(),
        rate_limit_per_minute: u32::try_from(limit).unwrap_or(0),
        // Infinity is never.
        expires_at: expires_at.map(|Moment(at)| at).filter(|at| *at < Timestamp::MAX),
        revoked_at: revoked_at.map(|Moment(at)| at),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moment(micros: i64) -> Timestamp {
        Moment::from_sql(&Type::TIMESTAMPTZ, &micros.to_be_bytes()).expect("eight bytes").0
    }

    #[test]
    fn infinite_times_are_the_ends_of_time() {
        assert_eq!(moment(0).to_string(), "2000-01-01T00:00:00Z");
        assert_eq!(moment(-EPOCH), Timestamp::UNIX_EPOCH);
        assert_eq!(moment(i64::MAX), Timestamp::MAX);
        assert_eq!(moment(i64::MIN), Timestamp::MIN);
    }

    #[test]
    fn a_scope_of_another_form_may_concern_anything() {
        let id = "0a1b2c3d-0000-1000-8000-00805f9b34fb";
        let gene = scope_of(&format!("gene:{id}"));
        assert_eq!(gene, ChangeScope::Gene(id.parse().expect("an id")));
        assert_eq!(scope_of("domain:a:b"), ChangeScope::Domain("a:b".into()));
        assert_eq!(
            scope_of(&format!("key:{}", "0f".repeat(32))),
            ChangeScope::Key(KeyHash([15; 32]))
        );
        for other in ["all", "", "gene:x", "key:0f", "planet:earth", "genes"] {
            assert_eq!(scope_of(other), ChangeScope::All, "{other}");
        }
    }

    #[test]
    fn moments_are_written_as_they_are_read() {
        for micros in [0, -1, 1_700_000_000_123_456, -63_000_000_000_000_000] {
            let mut written = BytesMut::new();
            Moment(moment(micros)).to_sql(&Type::TIMESTAMPTZ, &mut written).expect("a time");
            assert_eq!(written.as_ref(), micros.to_be_bytes());
        }
    }
}
