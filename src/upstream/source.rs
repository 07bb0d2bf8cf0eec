//! The trait of a registry to read from, with its two implementations: Postgres and memory.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::change::Changes;
use super::error::UpstreamError;
use super::read::Read;
use super::replication::Position;
use super::snapshot::Snapshot;
use crate::ops::PoolState;
use crate::registry::{
    ApiKeyRecord, ArenaInsights, DomainName, GeneId, GenePage, GenePhenotype, GeneSearch,
    GeneSummary, KeyHash, Timestamp,
};

/// A registry to read from. Every read sees one consistent state of it.
#[async_trait]
pub trait Upstream: Send + Sync + 'static {
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

    /// Reads the records of the API keys with these hashes, in their order and in one statement;
    /// `None` for unknown keys.
    async fn api_keys(
        &self,
        hashes: &[KeyHash],
    ) -> Result<Read<Vec<Option<ApiKeyRecord>>>, UpstreamError>;

    /// Reads the changes that `since` does not see; without it, those of the last
    /// [`HORIZON_HOURS`](super::change::HORIZON_HOURS).
    async fn changes(&self, since: Option<&Snapshot>) -> Result<Read<Changes>, UpstreamError>;

    /// Number of genes that the latest unfiltered search left out because they violate the
    /// contract of the views.
    fn broken_rows(&self) -> i64 {
        0
    }

    /// Its connection pools by name, if it has any.
    fn pools(&self) -> Vec<(&'static str, PoolState)> {
        Vec::new()
    }

    /// Its replication position; `None` if it does not report one.
    async fn position(&self) -> Result<Option<Position>, UpstreamError> {
        Ok(None)
    }

    /// Discards all open connections, which may lead to a server that is no longer the primary.
    fn renew(&self) {}

    /// The standbys to read from.
    fn standbys(&self) -> StandbySet {
        StandbySet::default()
    }

    /// Checks that the upstream is available. Returns its time.
    async fn ping(&self) -> Result<Timestamp, UpstreamError>;
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
