//! The traits of a registry to read from, which Postgres and the registry in memory implement.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::change::Changes;
use super::error::UpstreamError;
use super::history::Position;
use super::read::Read;
use super::snapshot::Snapshot;
use crate::ops::PoolState;
use crate::registry::{
    ApiKeyRecord, ArenaInsights, DomainName, GeneCounts, GeneFilter, GeneId, GenePage,
    GenePhenotype, GeneSearch, GeneSummary, KeyHash, RegistryNumbers, Timestamp,
};

/// Reads genes and keys. Every read sees one consistent state of the registry.
#[async_trait]
pub trait RegistryReader: Send + Sync + 'static {
    /// Counts the genes that a filter matches.
    async fn count(&self, filter: &GeneFilter) -> Result<Read<GeneCounts>, UpstreamError>;

    /// Reads one page of a search, with the number of all genes that match.
    async fn search(&self, search: &GeneSearch) -> Result<Read<GenePage>, UpstreamError>;

    /// Reads the genes of one page, without that number.
    async fn page(&self, search: &GeneSearch) -> Result<Read<Vec<GeneSummary>>, UpstreamError>;

    /// Reads a published gene's phenotype; `None` if there is no such gene.
    async fn phenotype(&self, id: GeneId) -> Result<Read<Option<GenePhenotype>>, UpstreamError>;

    /// Computes a domain's arena as of `now`; `None` if the domain has no published gene.
    async fn insights(
        &self,
        domain: &DomainName,
        now: Timestamp,
    ) -> Result<Read<Option<ArenaInsights>>, UpstreamError>;

    /// Counts the genes of all domains.
    async fn numbers(&self) -> Result<Read<RegistryNumbers>, UpstreamError>;

    /// Reads the records of the API keys with these hashes, in their order and in one statement;
    /// `None` for unknown keys.
    async fn api_keys(
        &self,
        hashes: &[KeyHash],
    ) -> Result<Read<Vec<Option<ApiKeyRecord>>>, UpstreamError>;

    /// Reads one row of each view that the service needs.
    async fn check_views(&self) -> Result<(), UpstreamError> {
        Ok(())
    }
}

/// Tells what has changed in a registry, and which server answers.
#[async_trait]
pub trait ChangeFeed: Send + Sync + 'static {
    /// Reads the changes that `since` does not see; without it, those of the last
    /// [`HORIZON_HOURS`](super::change::HORIZON_HOURS).
    async fn changes(&self, since: Option<&Snapshot>) -> Result<Read<Changes>, UpstreamError>;

    /// The time at which the transaction `xid` logged a change; `None` if it logged none.
    async fn changed_at(&self, _xid: u64) -> Result<Option<Timestamp>, UpstreamError> {
        Ok(None)
    }

    /// Reads the replication position, which also shows that the upstream is available.
    async fn position(&self) -> Result<Position, UpstreamError>;

    /// Discards all open connections, which may lead to a server that is no longer the primary.
    fn reconnect(&self) {}
}

/// A registry to read from, with its standbys and statistics.
pub trait Upstream: RegistryReader + ChangeFeed {
    /// The standbys to read from.
    fn standbys(&self) -> StandbySet {
        StandbySet::default()
    }

    /// Its connection pools by name, if it has any.
    fn pools(&self) -> Vec<(&'static str, PoolState)> {
        Vec::new()
    }
}

/// The standbys of an upstream.
#[derive(Clone, Default)]
pub struct StandbySet {
    /// The standbys, in the order of the configuration.
    pub each: Vec<Arc<dyn Upstream>>,
    /// Standbys that lag by more are not read.
    pub max_lag: Duration,
    /// Timeout of one read, over all servers that are tried.
    pub deadline: Duration,
}
