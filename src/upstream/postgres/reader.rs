//! Reads the registry from Postgres.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use tokio_postgres::Row;

use super::broken_rows::BrokenRows;
use super::connect::standby_configs;
use super::foreign_changes::ForeignChanges;
use super::hosts::Hosts;
use super::pool::{QueryParam, QueryPool};
use super::queries::{self, Counting};
use super::rows::{self, field, stamp};
use super::timestamp::PgTimestamp;
use super::url::SetupError;
use crate::config::UpstreamConfig;
use crate::ops::PoolState;
use crate::registry::{
    ApiKeyRecord, ArenaInsights, Count, DomainName, GeneId, GenePage, GenePhenotype, GeneSearch,
    GeneSummary, KeyHash, Timestamp, arena,
};
use crate::upstream::{Read, RegistryReader, StandbySet, Upstream, UpstreamError};

/// Connections beside the pool: for polls, and for the ping that follows a read that timed out.
const SIDE_CONNECTIONS: usize = 2;

/// A registry in Postgres.
pub struct Postgres {
    pub(super) pool: QueryPool,
    pub(super) hosts: Arc<Hosts>,
    /// For polls and pings, so that a busy pool does not delay them.
    pub(super) side_pool: QueryPool,
    install_template: String,
    /// Whether the server turned out not to report its replication position.
    pub(super) hides_position: AtomicBool,
    pub(super) foreign: Mutex<ForeignChanges>,
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
        let standby = |config: &UpstreamConfig| {
            let standby =
                Self::with_broken_rows(config, install_template.clone(), broken_rows.clone())?;
            Ok(Arc::new(standby) as Arc<dyn Upstream>)
        };
        let configs = standby_configs(config)?;
        let each = configs.iter().map(standby).collect::<Result<_, SetupError>>()?;
        let [max_lag, deadline] =
            [config.max_lag_ms, config.deadline_ms].map(Duration::from_millis);
        let hosts = Arc::new(Hosts::new(config, Duration::from_millis(config.connect_ms))?);
        let side_config = UpstreamConfig { pool_size: SIDE_CONNECTIONS, ..config.clone() };
        Ok(Self {
            side_pool: QueryPool::new(side_config, Arc::clone(&hosts))?,
            pool: QueryPool::new(config.clone(), Arc::clone(&hosts))?,
            hosts,
            hides_position: AtomicBool::new(false),
            foreign: Mutex::default(),
            standbys: StandbySet { each, max_lag, deadline },
            install_template,
            broken_rows,
        })
    }

    /// Returns warnings about settings that let a statement run longer than any request waits, or
    /// write, and about unsupported versions.
    pub async fn verify(&self) -> Result<Vec<String>, UpstreamError> {
        let row = &self.pool.run(&queries::SETTINGS, &[]).await?[0];
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

#[async_trait]
impl RegistryReader for Postgres {
    async fn search(&self, search: &GeneSearch) -> Result<Read<GenePage>, UpstreamError> {
        let (rows, data) = self.read_page(search, Counting::WithTotal).await?;
        let row = &rows[0];
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
        Ok(Read { value, seen: stamp(&rows[0])? })
    }

    async fn phenotype(&self, id: GeneId) -> Result<Read<Option<GenePhenotype>>, UpstreamError> {
        let row = &self.pool.run(&queries::PHENOTYPE, &[&id.uuid()]).await?[0];
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
        let rows = self.pool.run(&queries::INSIGHTS, &[&domain.as_str(), &then]).await?;
        let value = arena::insights(domain, rows::standing(&rows)?);
        Ok(Read { value, seen: stamp(&rows[0])? })
    }

    async fn api_keys(
        &self,
        hashes: &[KeyHash],
    ) -> Result<Read<Vec<Option<ApiKeyRecord>>>, UpstreamError> {
        let hash_bytes: Vec<&[u8]> = hashes.iter().map(|hash| hash.0.as_slice()).collect();
        let rows = self.pool.run(&queries::API_KEYS, &[&hash_bytes]).await?;
        let records = rows.iter().zip(hashes).map(|(row, hash)| rows::api_key(row, *hash));
        let value: Vec<_> = records.collect::<Result<_, _>>()?;
        Ok(Read { value, seen: stamp(&rows[0])? })
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
        let rows = self.pool.run(&statement, &values).await?;
        let genes = rows.iter().filter_map(|row| rows::listed_gene(row).transpose());
        let genes = genes.collect::<Result<_, _>>()?;
        Ok((rows, genes))
    }
}

/// The text of the statement for this search, to inspect its plan. Parameters: limit, offset, then
/// domain and fidelity, each if the filter has it.
pub fn search_statement(search: &GeneSearch) -> String {
    queries::search(&search.filter, search.sort, Counting::WithTotal).sql
}

fn add(a: PoolState, b: PoolState) -> PoolState {
    PoolState {
        max: a.max + b.max,
        size: a.size + b.size,
        idle: a.idle + b.idle,
        waiting: a.waiting + b.waiting,
    }
}
