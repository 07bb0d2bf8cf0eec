//! Reads the registry from Postgres.

use std::ops::Add;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use thiserror::Error;
use tokio_postgres::Row;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::Type;

use super::connect::standby_configs;
use super::failure::sql_state;
use super::foreign_changes::ForeignChanges;
use super::hosts::Hosts;
use super::pool::{QueryParam, QueryPool};
use super::queries::{self, Counting, Statement};
use super::rows::{self, stamp};
use super::url::SetupError;
use crate::config::UpstreamConfig;
use crate::net::PgTimestamp;
use crate::ops::PoolState;
use crate::registry::{
    ApiKeyRecord, ArenaInsights, DomainName, GeneCounts, GeneFilter, GeneId, GenePage,
    GenePhenotype, GeneSearch, GeneSummary, KeyHash, RegistryNumbers, Timestamp, arena,
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
}

impl Postgres {
    /// A registry that is not connected yet: it connects when it is read.
    ///
    /// # Errors
    /// A URL is invalid, or the file of certificate authorities cannot be read.
    pub fn new(config: &UpstreamConfig, install_template: String) -> Result<Self, SetupError> {
        let standby = |config: &UpstreamConfig| {
            Ok(Arc::new(Self::new(config, install_template.clone())?) as Arc<dyn Upstream>)
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
        })
    }
}

#[async_trait]
impl RegistryReader for Postgres {
    async fn count(&self, filter: &GeneFilter) -> Result<Read<GeneCounts>, UpstreamError> {
        let texts = filter_texts(filter);
        let values: Vec<_> = texts.iter().map(|text| text as QueryParam<'_>).collect();
        let row = &self.find(&queries::counts(filter), &values).await?[0];
        Ok(Read { value: rows::counts(row)?, seen: stamp(row)? })
    }

    async fn search(&self, search: &GeneSearch) -> Result<Read<GenePage>, UpstreamError> {
        let (rows, data) = self.read_page(search, Counting::WithTotal).await?;
        let row = &rows[0];
        let value = GenePage::new(search.page, data, rows::counts(row)?);
        Ok(Read { value, seen: stamp(row)? })
    }

    async fn page(&self, search: &GeneSearch) -> Result<Read<Vec<GeneSummary>>, UpstreamError> {
        let (rows, value) = self.read_page(search, Counting::PageAlone).await?;
        Ok(Read { value, seen: stamp(&rows[0])? })
    }

    async fn phenotype(&self, id: GeneId) -> Result<Read<Option<GenePhenotype>>, UpstreamError> {
        let rows = self.pool.run(&queries::PHENOTYPE, &[&id.uuid()]).await;
        let row = &rows.map_err(|error| with_gene(error, id))?[0];
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
        let rows = self.find(&queries::INSIGHTS, &[&domain.as_str(), &then]).await?;
        let value = arena::insights(domain, rows::standing(&rows)?);
        Ok(Read { value, seen: stamp(&rows[0])? })
    }

    async fn numbers(&self) -> Result<Read<RegistryNumbers>, UpstreamError> {
        let rows = self.pool.run(&queries::NUMBERS, &[]).await?;
        Ok(Read { value: rows::numbers(&rows)?, seen: stamp(&rows[0])? })
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

    async fn check_views(&self) -> Result<(), UpstreamError> {
        self.pool.run(&queries::VIEWS_READ, &[]).await.map(drop)
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
            pools.extend(states.reduce(PoolState::add).map(|sum| (sum_name, sum)));
        }
        pools
    }
}

impl Postgres {
    /// Runs a statement. A text that the database's encoding cannot hold is passed as NULL, which equals
    /// nothing.
    async fn find(
        &self,
        statement: &Statement,
        values: &[QueryParam<'_>],
    ) -> Result<Vec<Row>, UpstreamError> {
        let found = self.pool.run(statement, values).await;
        if !found.as_ref().is_err_and(is_untranslatable) {
            return found;
        }
        let mut values = values.to_vec();
        for (value, kind) in values.iter_mut().zip(&statement.types) {
            // Otherwise it is the result that cannot be sent.
            if *kind == Type::TEXT
                && let Err(error) = self.pool.run(&queries::HOLDS_TEXT, &[*value]).await
                && is_untranslatable(&error)
            {
                *value = &None::<&str>;
            }
        }
        self.pool.run(statement, &values).await
    }

    /// Reads the rows of a page, and the genes in them.
    async fn read_page(
        &self,
        search: &GeneSearch,
        counting: Counting,
    ) -> Result<(Vec<Row>, Vec<GeneSummary>), UpstreamError> {
        let statement = queries::search(&search.filter, search.sort, counting);
        let (limit, offset) = (i64::from(search.page.limit()), i64::from(search.page.offset()));
        let texts = filter_texts(&search.filter);
        let mut values: Vec<QueryParam<'_>> = vec![&limit, &offset];
        values.extend(texts.iter().map(|text| text as QueryParam<'_>));
        let rows = self.find(&statement, &values).await?;
        let genes = rows.iter().filter_map(|row| rows::listed_gene(row).transpose());
        let genes = genes.collect::<Result<_, _>>()?;
        Ok((rows, genes))
    }
}

/// The parameters of a filter's statement.
fn filter_texts(filter: &GeneFilter) -> Vec<&str> {
    let domain = filter.domain.as_ref().map(DomainName::as_str);
    domain.into_iter().chain(filter.fidelity.map(|fidelity| fidelity.as_str())).collect()
}

/// A failed read of one gene, for the log.
#[derive(Debug, Error)]
#[error("gene {id}")]
struct FailedGene {
    id: GeneId,
    source: Box<dyn std::error::Error + Send + Sync>,
}

/// Names the gene in the cause of a failed statement: a value of its row may be the reason.
fn with_gene(error: UpstreamError, id: GeneId) -> UpstreamError {
    match error {
        UpstreamError::Failed(source) => UpstreamError::Failed(FailedGene { id, source }.into()),
        other => other,
    }
}

fn is_untranslatable(error: &UpstreamError) -> bool {
    sql_state(error) == Some(&SqlState::UNTRANSLATABLE_CHARACTER)
}

/// The text of the statement for this search, to inspect its plan. Parameters: limit, offset, then
/// domain and fidelity, each if the filter has it.
pub fn search_statement(search: &GeneSearch) -> String {
    queries::search(&search.filter, search.sort, Counting::WithTotal).sql
}
