//! The registry in Postgres: the read path through the views of schema `registry_read`, and the
//! default schema behind them, for those who have no registry yet.

mod connect;
mod connection_budget;
mod failure;
mod hosts;
pub mod maintain;
mod manager;
mod pool;
mod queries;
mod rows;
pub mod schema;
pub mod seed;
mod standbys;
mod tls;
mod url;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use tokio_postgres::Row;
use tokio_postgres::error::SqlState;

use crate::config::UpstreamConfig;
use crate::ops::{PoolState, error_chain};
use crate::registry::{
    ApiKeyRecord, ArenaInsights, Count, DomainName, GeneFilter, GeneId, GenePage, GenePhenotype,
    GeneSearch, GeneSummary, KeyHash, Timestamp, arena,
};

use super::change_log::HORIZON_HOURS;
use super::{Changes, Position, Read, ReadStamp, Snapshot, StandbySet, Upstream, UpstreamError};
use hosts::Hosts;
use pool::{Connections, Value};
use queries::Counting;
use rows::Moment;

pub(crate) use connect::small_pool;
pub use connect::{ConnectError, check, connect};
pub(crate) use manager::{Object, Pool, PoolError};
pub use url::SetupError;

/// A registry in Postgres.
pub struct Postgres {
    connections: Connections,
    hosts: Arc<Hosts>,
    /// For looks into the change log and for pings: a full pool must not blind a replica.
    side: Connections,
    install_template: String,
    longest_statement: Duration,
    /// Whether the server has told that it can't say where it is.
    tells_no_position: AtomicBool,
    standbys: StandbySet,
    /// Rows that break the contract, by domain (`None`: everywhere); absent where there are none.
    broken: Broken,
}

/// Shared by the primary and its standbys.
type Broken = Arc<Mutex<HashMap<Option<DomainName>, i64>>>;

impl Postgres {
    /// A registry that is not connected yet: connections are made when they are needed.
    ///
    /// # Errors
    ///
    /// The URL or the certificate authorities can't be read.
    pub fn new(config: &UpstreamConfig, install_template: String) -> Result<Self, SetupError> {
        Self::counting(config, install_template, Broken::default())
    }

    fn counting(
        config: &UpstreamConfig,
        install_template: String,
        broken: Broken,
    ) -> Result<Self, SetupError> {
        let standbys = standbys::set(config, &install_template, &broken)?;
        let hosts = Arc::new(Hosts::new(config, config.connect())?);
        let one = UpstreamConfig { pool_size: 1, ..config.clone() };
        Ok(Self {
            side: Connections::new(&one, Arc::clone(&hosts))?,
            connections: Connections::new(config, Arc::clone(&hosts))?,
            hosts,
            tells_no_position: AtomicBool::new(false),
            standbys,
            install_template,
            longest_statement: config.deadline(),
            broken,
        })
    }

    /// What an operator should know about the role and the server: settings that would let a
    /// query outlive the reader, or write.
    pub async fn verify(&self) -> Result<Vec<String>, UpstreamError> {
        let rows = self.connections.run(queries::SETTINGS, &[]).await?;
        let row = first(&rows)?;
        let statement_timeout: Option<i64> = field(row, "statement_timeout_ms")?;
        let read_only: bool = field(row, "read_only")?;
        let version: i32 = field(row, "major_version")?;
        let longest = i64::try_from(self.longest_statement.as_millis()).unwrap_or(i64::MAX);
        let mut warnings = Vec::new();
        match statement_timeout {
            Some(ms) if (1..=longest).contains(&ms) => {}
            Some(ms) if ms > longest => warnings.push(format!(
                "the role's statement_timeout is {ms} ms, longer than anybody waits ({longest} ms)"
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
            warnings.push(format!("Postgres {version} is older than 13, the oldest supported"));
        }
        Ok(warnings)
    }

    /// Logs how many rows break the contract, when the number has changed.
    fn note_broken(&self, filter: &GeneFilter, found: i64) {
        if filter.fidelity.is_some() {
            return;
        }
        let mut broken = self.broken.lock().unwrap_or_else(PoisonError::into_inner);
        let before = if found == 0 {
            broken.remove(&filter.domain)
        } else {
            broken.insert(filter.domain.clone(), found)
        };
        if before.unwrap_or(0) != found {
            let domain = filter.domain.as_ref().map(DomainName::as_str);
            tracing::warn!(rows = found, domain, "genes that break the contract are left out");
        }
    }
}

#[async_trait]
impl Upstream for Postgres {
    async fn search(&self, search: &GeneSearch) -> Result<Read<GenePage>, UpstreamError> {
        let (rows, data) = self.listed(search, Counting::WithTotal).await?;
        let row = first(&rows)?;
        self.note_broken(&search.filter, field(row, "broken")?);
        let page = GenePage {
            data,
            total: Count::saturating(field(row, "total")?),
            limit: search.page.limit(),
            offset: search.page.offset(),
        };
        Ok(Read { value: page, seen: seen(row)? })
    }

    async fn page(&self, search: &GeneSearch) -> Result<Read<Vec<GeneSummary>>, UpstreamError> {
        let (rows, value) = self.listed(search, Counting::PageAlone).await?;
        Ok(Read { value, seen: seen(first(&rows)?)? })
    }

    async fn phenotype(&self, id: GeneId) -> Result<Read<Option<GenePhenotype>>, UpstreamError> {
        let rows = self.connections.run(queries::PHENOTYPE, &[&id.uuid()]).await?;
        let row = first(&rows)?;
        let gene = rows::gene_with_phenotype(row).map_err(unexpected)?;
        let value = gene.map(|gene| gene.into_phenotype(&self.install_template)).transpose()?;
        Ok(Read { value, seen: seen(row)? })
    }

    async fn insights(
        &self,
        domain: &DomainName,
        now: Timestamp,
    ) -> Result<Read<Option<ArenaInsights>>, UpstreamError> {
        let then = Moment(arena::turnover_begins(now));
        let rows = self.connections.run(queries::INSIGHTS, &[&domain.as_str(), &then]).await?;
        let row = first(&rows)?;
        let standing = rows::standing(row, &rows).map_err(unexpected)?;
        let value = arena::insights(domain, standing);
        Ok(Read { value, seen: seen(row)? })
    }

    async fn api_keys(
        &self,
        hashes: &[KeyHash],
    ) -> Result<Read<Vec<Option<ApiKeyRecord>>>, UpstreamError> {
        let asked: Vec<&[u8]> = hashes.iter().map(|hash| hash.0.as_slice()).collect();
        let rows = self.connections.run(queries::API_KEYS, &[&asked]).await?;
        let records = rows.iter().zip(hashes).map(|(row, hash)| rows::api_key(row, *hash));
        let value: Vec<_> = records.collect::<Result<_, _>>().map_err(unexpected)?;
        Ok(Read { value, seen: seen(first(&rows)?)? })
    }

    async fn changes(&self, since: Option<&Snapshot>) -> Result<Read<Changes>, UpstreamError> {
        if let Some(since) = since.map(Snapshot::to_string) {
            match self.side.run(queries::CHANGES_SINCE, &[&since]).await {
                Err(error) if is_undefined_table(&error) => {}
                found => return changes(&found?),
            }
        }
        let rows = self.side.run(queries::HAS_LOG, &[]).await?;
        let row = first(&rows)?;
        if !field::<bool>(row, "has_log")? {
            return Ok(Read { value: Changes::NoLog, seen: seen(row)? });
        }
        let hours = HORIZON_HOURS as i32;
        changes(&self.side.run(queries::CHANGES_OF_HORIZON, &[&hours]).await?)
    }

    fn broken_rows(&self) -> i64 {
        let broken = self.broken.lock().unwrap_or_else(PoisonError::into_inner);
        broken.get(&None).copied().unwrap_or(0)
    }

    fn pools(&self) -> Vec<(&'static str, PoolState)> {
        let mut pools =
            vec![("postgres", self.connections.state()), ("postgres_side", self.side.state())];
        let of_standbys = self.standbys.each.iter().flat_map(|standby| standby.pools());
        pools.extend(standbys::together(of_standbys));
        pools
    }

    async fn position(&self) -> Result<Option<Position>, UpstreamError> {
        if self.tells_no_position.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let rows = match self.side.run(queries::POSITION, &[]).await {
            // Asked each second, it would fill the log of somebody else's server.
            Err(error) if is_not_offered(&error) => {
                tracing::warn!(
                    error = error_chain(&error),
                    "the database does not say where it is in its history: fail-overs are not \
                     noticed, and no standby is read"
                );
                self.tells_no_position.store(true, Ordering::Relaxed);
                return Ok(None);
            }
            found => found?,
        };
        let position = rows::position(first(&rows)?).map_err(UpstreamError::Failed)?;
        if position.is_standby && self.hosts.wants_primary() {
            // Whatever stands between us has moved us.
            self.renew();
            return Err(UpstreamError::Unreachable("connected to a standby".into()));
        }
        Ok(Some(position))
    }

    fn renew(&self) {
        self.connections.renew();
        self.side.renew();
    }

    fn standbys(&self) -> StandbySet {
        self.standbys.clone()
    }

    async fn ping(&self) -> Result<Timestamp, UpstreamError> {
        let rows = self.side.run(queries::PING, &[]).await?;
        let Moment(now) = field(first(&rows)?, "read_at")?;
        Ok(now)
    }
}

impl Postgres {
    /// A page's rows, and the genes in them.
    async fn listed(
        &self,
        search: &GeneSearch,
        counting: Counting,
    ) -> Result<(Vec<Row>, Vec<GeneSummary>), UpstreamError> {
        let statement = queries::search(&search.filter, search.sort, counting);
        let (limit, offset) = (i64::from(search.page.limit()), i64::from(search.page.offset()));
        let domain = search.filter.domain.as_ref().map(DomainName::as_str);
        let fidelity = search.filter.fidelity.map(|fidelity| fidelity.as_str());
        let mut values: Vec<Value<'_>> = vec![&limit, &offset];
        values.extend(domain.as_ref().map(|text| text as Value<'_>));
        values.extend(fidelity.as_ref().map(|text| text as Value<'_>));
        let rows = self.connections.run(statement, &values).await?;
        let mut data = Vec::with_capacity(rows.len());
        for row in &rows {
            if let Some((gene, evaluations)) = rows::listed_gene(row).map_err(unexpected)? {
                data.push(gene.into_summary(evaluations)?);
            }
        }
        Ok((rows, data))
    }
}

fn changes(rows: &[Row]) -> Result<Read<Changes>, UpstreamError> {
    let value = rows::changes(rows).map_err(unexpected)?;
    Ok(Read { value, seen: seen(first(rows)?)? })
}

/// Whether the statement failed because what it reads from does not exist.
fn is_undefined_table(error: &UpstreamError) -> bool {
    let UpstreamError::Failed(cause) = error else { return false };
    let cause = cause.downcast_ref::<tokio_postgres::Error>();
    cause.and_then(tokio_postgres::Error::code) == Some(&SqlState::UNDEFINED_TABLE)
}

/// Whether the server does not have, or does not let us use, what the statement needs.
fn is_not_offered(error: &UpstreamError) -> bool {
    let UpstreamError::Failed(cause) = error else { return false };
    let cause = cause.downcast_ref::<tokio_postgres::Error>();
    let code = cause.and_then(tokio_postgres::Error::code);
    code.is_some_and(|code| {
        [
            SqlState::UNDEFINED_FUNCTION,
            SqlState::INSUFFICIENT_PRIVILEGE,
            SqlState::FEATURE_NOT_SUPPORTED,
        ]
        .contains(code)
    })
}

/// The text of the statement that answers this search, for whoever wants to see its plan.
/// Parameters: limit, offset, then the domain, then the fidelity, each where it is asked for.
pub fn search_statement(search: &GeneSearch) -> &'static str {
    queries::search(&search.filter, search.sort, Counting::WithTotal).sql
}

/// Every statement of ours answers with a row at least.
fn first(rows: &[Row]) -> Result<&Row, UpstreamError> {
    rows.first().ok_or_else(|| UpstreamError::Failed("an answer without any row".into()))
}

fn field<'a, T: tokio_postgres::types::FromSql<'a>>(
    row: &'a Row,
    name: &str,
) -> Result<T, UpstreamError> {
    row.try_get(name).map_err(unexpected)
}

fn seen(row: &Row) -> Result<ReadStamp, UpstreamError> {
    rows::seen(row).map_err(UpstreamError::Failed)
}

fn unexpected(error: tokio_postgres::Error) -> UpstreamError {
    UpstreamError::Failed(error.into())
}
