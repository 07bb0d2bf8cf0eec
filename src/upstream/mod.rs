//! Where the registry's facts come from: a Postgres that belongs to somebody else, or the
//! embedded sample registry. One trait, one behaviour suite.

mod catalogue;
mod change_index;
pub mod change_log;
mod embedded;
mod embedded_keys;
pub mod generate;
mod key_changes;
mod polls;
pub mod postgres;
mod reads;
mod replication;
pub mod snapshot;
mod standbys;
mod watched;

use async_trait::async_trait;
use thiserror::Error;

use crate::ops::PoolState;
use crate::registry::{
    ApiKeyRecord, ArenaInsights, ContractBreach, DomainName, GeneId, GenePage, GenePhenotype,
    GeneSearch, GeneSummary, KeyHash, Timestamp,
};

pub use catalogue::{Catalogue, CatalogueEvaluation, CatalogueGene};
pub use change_log::{Change, ChangeLog, ChangeScope, Changes, DependsOn, ReadStamp};
pub use embedded::{Embedded, EmbeddedGene};
pub use embedded_keys::{EmbeddedKey, EmbeddedKeys, KeysByHash, Rotation};
pub use key_changes::ChangedKeys;
pub use polls::PollCounts;
pub use postgres::Postgres;
pub use replication::Position;
pub use snapshot::Snapshot;
pub use standbys::{StandbySet, StandbyState};
pub use watched::UpstreamClient;

/// What a read found, and when.
#[derive(Debug, Clone, PartialEq)]
pub struct Read<T> {
    /// What was found.
    pub value: T,
    /// When, and in which state of the database.
    pub seen: ReadStamp,
}

/// A source of the registry's facts. Every read sees one consistent state.
#[async_trait]
pub trait Upstream: Send + Sync + 'static {
    /// One page of a search, with the number of all genes that match.
    async fn search(&self, search: &GeneSearch) -> Result<Read<GenePage>, UpstreamError>;

    /// The genes of one page alone.
    async fn page(&self, search: &GeneSearch) -> Result<Read<Vec<GeneSummary>>, UpstreamError>;

    /// A published gene's phenotype; `None` where there is no such gene.
    async fn phenotype(&self, id: GeneId) -> Result<Read<Option<GenePhenotype>>, UpstreamError>;

    /// A domain's arena as of `now`; `None` where the domain has no published gene.
    async fn insights(
        &self,
        domain: &DomainName,
        now: Timestamp,
    ) -> Result<Read<Option<ArenaInsights>>, UpstreamError>;

    /// The records of the API keys with these hashes, in their order, all from one look; `None`
    /// where there is none.
    async fn api_keys(
        &self,
        hashes: &[KeyHash],
    ) -> Result<Read<Vec<Option<ApiKeyRecord>>>, UpstreamError>;

    /// The record of one API key.
    async fn api_key(&self, hash: &KeyHash) -> Result<Read<Option<ApiKeyRecord>>, UpstreamError> {
        let Read { value, seen } = self.api_keys(std::slice::from_ref(hash)).await?;
        Ok(Read { value: value.into_iter().next().flatten(), seen })
    }

    /// The changes that are not visible in `since`; without it, those of the last
    /// [`change_log::HORIZON_HOURS`].
    async fn changes(&self, since: Option<&Snapshot>) -> Result<Read<Changes>, UpstreamError>;

    /// Rows that the latest unfiltered search left out because they break the contract.
    fn broken_rows(&self) -> i64 {
        0
    }

    /// Its pools of connections by name, where it has any.
    fn pools(&self) -> Vec<(&'static str, PoolState)> {
        Vec::new()
    }

    /// Where it is in the database's history, if it can tell.
    async fn position(&self) -> Result<Option<Position>, UpstreamError> {
        Ok(None)
    }

    /// Connections that there are may lead to a server that is not the primary any more: none of
    /// them is used again.
    fn renew(&self) {}

    /// Further servers that answers may be read from.
    fn standbys(&self) -> StandbySet {
        StandbySet::default()
    }

    /// Whether the upstream answers at all; its time.
    async fn ping(&self) -> Result<Timestamp, UpstreamError>;
}

/// Why an upstream could not answer.
#[derive(Debug, Error)]
pub enum UpstreamError {
    /// It can't be reached, or went away: passing, another try may succeed.
    #[error("the database cannot be reached")]
    Unreachable(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// Another replica has just tried the same in vain.
    #[error("another replica could not read the database just now")]
    Elsewhere,
    /// Only a standby is there, and it lacks a change that is known: passing.
    #[error("the standby that is left lacks a known change")]
    Behind,
    /// It did not answer in time, or no connection was free in time: passing.
    #[error("the database did not answer in time")]
    Timeout,
    /// It refused the statement, or answered something unexpected: an operator must look.
    #[error("the database refused or misanswered a statement")]
    Failed(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The row asked for breaks the contract of the views.
    #[error(transparent)]
    Contract(#[from] ContractBreach),
}
