//! An upstream in memory that follows a script: one gene, its change log, and a clock of its own.

use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use gene_registry::registry::{
    ApiKeyRecord, ArenaInsights, DomainName, GeneCounts, GeneFilter, GeneId, GenePage,
    GenePhenotype, GeneSearch, GeneSummary, KeyHash, RawGene, RegistryNumbers, Timestamp,
};
use gene_registry::upstream::{
    BootInstant, Change, ChangeFeed, ChangeScope, Changes, Position, Read, ReadStamp,
    RegistryReader, Snapshot, Upstream, UpstreamError,
};
use jiff::SignedDuration;
use uuid::Uuid;

/// The state of the upstream.
#[derive(Debug, Clone)]
pub(super) struct UpstreamState {
    /// Whole seconds. Reads are stamped half a second earlier, so that no age is exactly at a
    /// bound.
    pub(super) now: Timestamp,
    pub(super) version: u64,
    pub(super) published: bool,
    pub(super) unavailable: Option<bool>,
    pub(super) log_unreadable: bool,
    /// The number of phenotypes read.
    pub(super) loads: usize,
}

pub(super) struct ScriptedUpstream(pub(super) Mutex<UpstreamState>);

impl ScriptedUpstream {
    pub(super) fn state(&self) -> MutexGuard<'_, UpstreamState> {
        self.0.lock().unwrap()
    }

    fn check_available(state: &UpstreamState) -> Result<(), UpstreamError> {
        match state.unavailable {
            None => Ok(()),
            Some(true) => Err(UpstreamError::Unreachable("refused".into())),
            Some(false) => Err(UpstreamError::Timeout),
        }
    }
}

/// Version n is committed by transaction 10 + n.
pub(super) fn snapshot(version: u64) -> Option<Snapshot> {
    format!("{0}:{0}:", version + 11).parse().ok()
}

pub(super) fn id() -> GeneId {
    Uuid::from_u128(7).into()
}

#[async_trait]
impl RegistryReader for ScriptedUpstream {
    async fn count(&self, _: &GeneFilter) -> Result<Read<GeneCounts>, UpstreamError> {
        unreachable!("the test does not search")
    }

    async fn search(&self, _: &GeneSearch) -> Result<Read<GenePage>, UpstreamError> {
        unreachable!("the test does not search")
    }

    async fn page(&self, _: &GeneSearch) -> Result<Read<Vec<GeneSummary>>, UpstreamError> {
        unreachable!("the test does not search")
    }

    async fn phenotype(&self, _: GeneId) -> Result<Read<Option<GenePhenotype>>, UpstreamError> {
        let mut state = self.state();
        state.loads += 1;
        Self::check_available(&state)?;
        let read_at = state.now - SignedDuration::from_millis(500);
        let gene = RawGene {
            id: id().uuid(),
            name: Some(format!("version {}", state.version)),
            domain: Some("d".to_owned()),
            fidelity: Some("Native".to_owned()),
            ..RawGene::default()
        };
        let value = state.published.then(|| gene.into_phenotype("{id}")).transpose()?;
        let mut seen = ReadStamp::new(read_at, snapshot(state.version));
        seen.began = BootInstant::now() - Duration::from_millis(500);
        Ok(Read { value, seen })
    }

    async fn insights(
        &self,
        _: &DomainName,
        _: Timestamp,
    ) -> Result<Read<Option<ArenaInsights>>, UpstreamError> {
        unreachable!("the test does not read insights")
    }

    async fn numbers(&self) -> Result<Read<RegistryNumbers>, UpstreamError> {
        unreachable!("the test reads no numbers")
    }

    async fn api_keys(
        &self,
        _: &[KeyHash],
    ) -> Result<Read<Vec<Option<ApiKeyRecord>>>, UpstreamError> {
        unreachable!("the test sends no key")
    }
}

#[async_trait]
impl ChangeFeed for ScriptedUpstream {
    async fn changes(&self, since: Option<&Snapshot>) -> Result<Read<Changes>, UpstreamError> {
        let state = self.state();
        Self::check_available(&state)?;
        if state.log_unreadable {
            return Err(UpstreamError::Failed("permission denied".into()));
        }
        let news = (1..=state.version).map(|version| version + 10);
        let news = news.filter(|xid| since.is_none_or(|since| !since.sees(*xid)));
        let changes =
            news.map(|xid| Change { scope: ChangeScope::Gene(id()), xid: Some(xid) }).collect();
        let seen = ReadStamp::new(state.now, snapshot(state.version));
        Ok(Read { value: Changes::These(changes), seen })
    }

    async fn position(&self) -> Result<Position, UpstreamError> {
        let state = self.state();
        Self::check_available(&state).map(|()| Position::without_server(state.now))
    }
}

impl Upstream for ScriptedUpstream {}
