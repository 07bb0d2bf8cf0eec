//! Reads the registry from Postgres.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use tokio_postgres::Row;
use tokio_postgres::error::SqlState;

use super::broken_rows::BrokenRows;
use super::fields::{field, first, sql_state};
use super::hosts::Hosts;
use super::pool::{QueryParam, QueryPool};
use super::queries::{self, Counting, Statement};
use super::rows::{self, stamp};
use super::setup_error::SetupError;
use super::standby_urls;
use super::timestamp::PgTimestamp;
use crate::config::UpstreamConfig;
use crate::ops::{PoolState, error_chain};
use crate::registry::{
    ApiKeyRecord, ArenaInsights, Count, DomainName, GeneId, GenePage, GenePhenotype, GeneSearch,
    GeneSummary, KeyHash, Timestamp, arena,
};
use crate::sync::lock;
use crate::upstream::change::HORIZON_HOURS;
use crate::upstream::{
    ChangeFeed, Changes, Position, Read, RegistryReader, Snapshot, StandbySet, Upstream,
    UpstreamError,
};

/// Connections beside the pool: for polls, and for the ping that follows a read that timed out.
const SIDE_CONNECTIONS: usize = 2;

/// Changes with numbers that this cluster has not reached.
#[derive(Debug, Default)]
struct ForeignChanges {
    count: i64,
    newest: Option<Timestamp>,
    /// Whether the whole log is another cluster's.
    is_proven: bool,
}

/// A registry in Postgres.
pub struct Postgres {
    pub(super) pool: QueryPool,
    hosts: Arc<Hosts>,
    /// For polls and pings, so that a busy pool does not delay them.
    side_pool: QueryPool,
    install_template: String,
    /// Whether the server turned out not to report its replication position.
    hides_position: AtomicBool,
    foreign: Mutex<ForeignChanges>,
    standbys: StandbySet,
    broken_rows: BrokenRows,
}

impl Postgres {
    /// A registry that is not connected yet: it connects when it is read.
    ///
    /// # Errors
    ///
    /// A URL is invalid, or the file of certificate authorities cannot be read.
    pub fn new(config: &UpstreamConfig, install_template: String) -> Result<Self, SetupError> {
        Self::with_broken_rows(config, install_template, BrokenRows::default())
    }

    fn with_broken_rows(
        config: &UpstreamConfig,
        install_template: String,
        broken_rows: BrokenRows,
    ) -> Result<Self, SetupError> {
        let standbys = standby_set(config, &install_template, &broken_rows)?;
        let hosts = Arc::new(Hosts::new(config, Duration::from_millis(config.connect_ms))?);
        let side_config = UpstreamConfig { pool_size: SIDE_CONNECTIONS, ..config.clone() };
        Ok(Self {
            side_pool: QueryPool::new(&side_config, Arc::clone(&hosts))?,
            pool: QueryPool::new(config, Arc::clone(&hosts))?,
            hosts,
            hides_position: AtomicBool::new(false),
            foreign: Mutex::default(),
            standbys,
            install_template,
            broken_rows,
        })
    }
}

#[async_trait]
impl RegistryReader for Postgres {
    async fn search(&self, search: &GeneSearch) -> Result<Read<GenePage>, UpstreamError> {
        let (rows, data) = self.read_page(search, Counting::WithTotal).await?;
        let row = first(&rows)?;
        self.broken_rows.record(&search.filter, field(row, "broken")?);
        let page = GenePage {
            data,
            total: Count::saturating(field(row, "total")?),
            limit: search.page.limit(),
            offset: search.page.offset(),
        };
        Ok(Read { value: page, seen: stamp(row)? })
    }

    async fn page(&self, search: &GeneSearch) -> Result<Read<Vec<GeneSummary>>, UpstreamError> {
        let (rows, value) = self.read_page(search, Counting::PageAlone).await?;
        Ok(Read { value, seen: stamp(first(&rows)?)? })
    }

    async fn phenotype(&self, id: GeneId) -> Result<Read<Option<GenePhenotype>>, UpstreamError> {
        let rows = self.pool.run(queries::PHENOTYPE, &[&id.uuid()]).await?;
        let row = first(&rows)?;
        let gene = rows::gene_with_phenotype(row)?;
        let value = gene.map(|gene| gene.into_phenotype(&self.install_template)).transpose()?;
        Ok(Read { value, seen: stamp(row)? })
    }

    async fn insights(
        &self,
        domain: &DomainName,
        now: Timestamp,
    ) -> Result<Read<Option<ArenaInsights>>, UpstreamError> {
        let then = PgTimestamp(arena::turnover_begins(now));
        let rows = self.pool.run(queries::INSIGHTS, &[&domain.as_str(), &then]).await?;
        let row = first(&rows)?;
        let standing = rows::standing(row, &rows)?;
        let value = arena::insights(domain, standing);
        Ok(Read { value, seen: stamp(row)? })
    }

    async fn api_keys(
        &self,
        hashes: &[KeyHash],
    ) -> Result<Read<Vec<Option<ApiKeyRecord>>>, UpstreamError> {
        let hash_bytes: Vec<&[u8]> = hashes.iter().map(|hash| hash.0.as_slice()).collect();
        let rows = self.pool.run(queries::API_KEYS, &[&hash_bytes]).await?;
        let records = rows.iter().zip(hashes).map(|(row, hash)| rows::api_key(row, *hash));
        let value: Vec<_> = records.collect::<Result<_, _>>()?;
        Ok(Read { value, seen: stamp(first(&rows)?)? })
    }
}

#[async_trait]
impl ChangeFeed for Postgres {
    async fn changes(&self, since: Option<&Snapshot>) -> Result<Read<Changes>, UpstreamError> {
        if let Some(since) = since {
            let running: Vec<_> = since.running().iter().map(u64::to_string).collect();
            let (xmax, running) = (since.xmax().to_string(), format!("{{{}}}", running.join(",")));
            match self.side_pool.run(queries::CHANGES_SINCE, &[&xmax, &running]).await {
                Err(error) if sql_state(&error) == Some(&SqlState::UNDEFINED_TABLE) => {}
                found => return self.found_changes(&found?, false),
            }
        }
        let rows = self.side_pool.run(queries::HAS_LOG, &[]).await?;
        let row = first(&rows)?;
        if !field::<bool>(row, "has_log")? {
            return Ok(Read { value: Changes::NoLog, seen: stamp(row)? });
        }
        let hours = HORIZON_HOURS as i32;
        self.found_changes(&self.side_pool.run(queries::CHANGES_OF_HORIZON, &[&hours]).await?, true)
    }

    async fn changed_at(&self, xid: u64) -> Result<Option<Timestamp>, UpstreamError> {
        let rows = self.side_pool.run(queries::CHANGED_AT, &[&xid.to_string()]).await?;
        let changed_at: Option<PgTimestamp> = field(first(&rows)?, "changed_at")?;
        Ok(changed_at.map(|PgTimestamp(at)| at))
    }

    async fn position(&self) -> Result<Position, UpstreamError> {
        let position = match self.side_pool.run(self.position_statement(), &[]).await {
            // Not tried again: each poll would log an error in the registry's database.
            Err(error)
                if is_unsupported(&error) && !self.hides_position.load(Ordering::Relaxed) =>
            {
                tracing::warn!(
                    error = error_chain(&error),
                    "the database does not report its replication position: only a restart is \
                     detected as another history, and standbys are not read"
                );
                self.hides_position.store(true, Ordering::Relaxed);
                rows::position(first(&self.side_pool.run(self.position_statement(), &[]).await?)?)?
            }
            found => rows::position(first(&found?)?)?,
        };
        let is_standby = position.server.is_some_and(|server| server.is_standby);
        if is_standby && self.hosts.requires_primary() {
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

impl Upstream for Postgres {
    fn standbys(&self) -> StandbySet {
        self.standbys.clone()
    }

    fn pools(&self) -> Vec<(&'static str, PoolState)> {
        let mut pools =
            vec![("postgres", self.pool.state()), ("postgres_side", self.side_pool.state())];
        let of_standbys: Vec<_> =
            self.standbys.each.iter().flat_map(|standby| standby.pools()).collect();
        for (name, sum_name) in
            [("postgres", "postgres_standbys"), ("postgres_side", "postgres_standbys_side")]
        {
            let states = of_standbys.iter().filter(|(pool, _)| *pool == name).map(|(_, one)| *one);
            pools.extend(states.reduce(add).map(|sum| (sum_name, sum)));
        }
        pools
    }

    fn broken_rows(&self) -> i64 {
        self.broken_rows.total()
    }
}

impl Postgres {
    fn position_statement(&self) -> Statement {
        let is_hidden = self.hides_position.load(Ordering::Relaxed);
        if is_hidden { queries::SERVER } else { queries::POSITION }
    }

    /// The changes that a poll found. Those with numbers that this cluster has not reached were made
    /// in another one: the first poll finds what a restored dump brought along, later ones prove that
    /// the log is another cluster's.
    fn found_changes(&self, rows: &[Row], is_first: bool) -> Result<Read<Changes>, UpstreamError> {
        let row = first(rows)?;
        let (value, seen) = (rows::changes(row)?, stamp(row)?);
        let mut foreign = lock(&self.foreign);
        let (count, newest): (i64, Option<PgTimestamp>) =
            (field(row, "foreign_count")?, field(row, "foreign_newest")?);
        let newest = newest.map(|PgTimestamp(at)| at);
        if is_first && !foreign.is_proven {
            (foreign.count, foreign.newest) = (count, newest);
        } else if !foreign.is_proven && (count > foreign.count || newest > foreign.newest) {
            foreign.is_proven = true;
            tracing::warn!(
                "the registry's change log (registry_read.change) has transaction numbers of another \
                 cluster, as on a logical replica: it is ignored, and only ages limit the use of \
                 cached entries"
            );
        }
        Ok(Read { value: if foreign.is_proven { Changes::NoLog } else { value }, seen })
    }

    /// Reads the rows of a page, and the genes in them.
    async fn read_page(
        &self,
        search: &GeneSearch,
        counting: Counting,
    ) -> Result<(Vec<Row>, Vec<GeneSummary>), UpstreamError> {
        let statement = queries::search(&search.filter, search.sort, counting);
        let (limit, offset) = (i64::from(search.page.limit()), i64::from(search.page.offset()));
        let domain = search.filter.domain.as_ref().map(DomainName::as_str);
        let fidelity = search.filter.fidelity.map(|fidelity| fidelity.as_str());
        let mut values: Vec<QueryParam<'_>> = vec![&limit, &offset];
        values.extend(domain.as_ref().map(|text| text as QueryParam<'_>));
        values.extend(fidelity.as_ref().map(|text| text as QueryParam<'_>));
        let rows = self.pool.run(statement, &values).await?;
        let mut data = Vec::with_capacity(rows.len());
        for row in &rows {
            if let Some((gene, evaluations)) = rows::listed_gene(row)? {
                data.push(gene.into_summary(evaluations)?);
            }
        }
        Ok((rows, data))
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

/// The text of the statement for this search, to inspect its plan. Parameters: limit, offset, then
/// domain and fidelity, each if the filter has it.
pub fn search_statement(search: &GeneSearch) -> &'static str {
    queries::search(&search.filter, search.sort, Counting::WithTotal).sql
}

/// The configured standbys, not connected yet.
fn standby_set(
    config: &UpstreamConfig,
    install_template: &str,
    broken_rows: &BrokenRows,
) -> Result<StandbySet, SetupError> {
    let standby = |one: &UpstreamConfig| {
        let standby =
            Postgres::with_broken_rows(one, install_template.to_owned(), broken_rows.clone());
        standby.map(|standby| Arc::new(standby) as Arc<dyn Upstream>)
    };
    let configs = standby_urls::configs(config)?;
    let each = configs.iter().map(standby).collect::<Result<_, _>>()?;
    let [max_lag, deadline] = [config.max_lag_ms, config.deadline_ms].map(Duration::from_millis);
    Ok(StandbySet { each, max_lag, deadline })
}

fn add(a: PoolState, b: PoolState) -> PoolState {
    PoolState {
        max: a.max + b.max,
        size: a.size + b.size,
        idle: a.idle + b.idle,
        waiting: a.waiting + b.waiting,
    }
}
