//! The listeners: protocols, misbehaving connections, shutdown, and what is served without a key.

mod connections;
mod cors;
mod floods;
mod http2;
mod operations;
mod pages;
mod panics;
mod peers;
mod pinned_memory;
mod random_requests;
mod security_headers;
mod shutdown;
mod slow_peers;
mod slow_readers;
mod tls;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use gene_registry::config::Config;
use gene_registry::keys::ApiKey;
use gene_registry::registry::{
    ApiKeyRecord, ArenaInsights, Catalogue, DomainName, GeneCounts, GeneFilter, GeneId, GenePage,
    GenePhenotype, GeneSearch, GeneSummary, KeyHash, RegistryNumbers, Timestamp,
};
use gene_registry::upstream::{
    ChangeFeed, Changes, Embedded, Position, Read, RegistryReader, Snapshot, Upstream,
    UpstreamError,
};
use tokio::sync::Semaphore;

use crate::support::replica::{Replica, config};

const TIMEOUT: Duration = Duration::from_secs(20);

/// The sample registry in memory; it can fail, and hold back the insights of a domain.
struct ControlledUpstream {
    inner: Embedded,
    unavailable: AtomicBool,
    panics: AtomicBool,
    /// One permit for each read that has begun.
    started: Semaphore,
    /// Without permits, reads are held: each waits for one, and returns it.
    gate: Semaphore,
}

impl ControlledUpstream {
    /// An upstream that holds nothing, and the plain text of a key.
    fn new() -> (Arc<Self>, String) {
        let key = ApiKey::generate().unwrap();
        let record = ApiKeyRecord {
            hash: key.hash(),
            prefix: key.prefix().to_owned(),
            owner: "team-test".to_owned(),
            name: "test".to_owned(),
            scopes: vec!["read".to_owned()],
            rate_limit_per_minute: 1_000_000,
            expires_at: None,
            revoked_at: None,
        };
        let (sample, now) = (Catalogue::sample().unwrap(), Timestamp::now());
        let inner = Embedded::from_catalogue(&sample, now, vec![record], "get {id}".to_owned());
        let (started, gate) = (Semaphore::new(0), Semaphore::new(Semaphore::MAX_PERMITS));
        let upstream = Self {
            inner,
            unavailable: AtomicBool::new(false),
            panics: AtomicBool::new(false),
            started,
            gate,
        };
        (Arc::new(upstream), key.expose().to_owned())
    }

    fn hold(&self) {
        self.gate.forget_permits(Semaphore::MAX_PERMITS);
    }

    fn release(&self) {
        self.gate.add_permits(Semaphore::MAX_PERMITS);
    }

    fn check_available(&self) -> Result<(), UpstreamError> {
        if self.unavailable.load(Ordering::SeqCst) { Err(UpstreamError::Timeout) } else { Ok(()) }
    }

    /// Waits until a read has begun.
    async fn started(&self) {
        let started = tokio::time::timeout(TIMEOUT, self.started.acquire()).await;
        started.expect("a read begins").unwrap().forget();
    }
}

#[async_trait]
impl RegistryReader for ControlledUpstream {
    async fn count(&self, filter: &GeneFilter) -> Result<Read<GeneCounts>, UpstreamError> {
        self.inner.count(filter).await
    }

    async fn search(&self, search: &GeneSearch) -> Result<Read<GenePage>, UpstreamError> {
        self.inner.search(search).await
    }

    async fn page(&self, search: &GeneSearch) -> Result<Read<Vec<GeneSummary>>, UpstreamError> {
        self.inner.page(search).await
    }

    async fn phenotype(&self, id: GeneId) -> Result<Read<Option<GenePhenotype>>, UpstreamError> {
        self.inner.phenotype(id).await
    }

    async fn insights(
        &self,
        domain: &DomainName,
        now: Timestamp,
    ) -> Result<Read<Option<ArenaInsights>>, UpstreamError> {
        self.started.add_permits(1);
        assert!(!self.panics.load(Ordering::SeqCst), "a panic that the test requests");
        let _permit = self.gate.acquire().await.unwrap();
        self.inner.insights(domain, now).await
    }

    async fn numbers(&self) -> Result<Read<RegistryNumbers>, UpstreamError> {
        self.inner.numbers().await
    }

    async fn api_keys(
        &self,
        hashes: &[KeyHash],
    ) -> Result<Read<Vec<Option<ApiKeyRecord>>>, UpstreamError> {
        self.inner.api_keys(hashes).await
    }
}

#[async_trait]
impl ChangeFeed for ControlledUpstream {
    async fn changes(&self, since: Option<&Snapshot>) -> Result<Read<Changes>, UpstreamError> {
        self.check_available()?;
        self.inner.changes(since).await
    }

    async fn position(&self) -> Result<Position, UpstreamError> {
        self.check_available()?;
        self.inner.position().await
    }
}

impl Upstream for ControlledUpstream {}

/// A replica in memory, and a key for it.
async fn replica(change: impl FnOnce(&mut Config)) -> (Replica, String) {
    let (upstream, key) = ControlledUpstream::new();
    (replica_over(upstream, change).await, key)
}

async fn replica_over(
    upstream: Arc<ControlledUpstream>,
    change: impl FnOnce(&mut Config),
) -> Replica {
    let mut config = config("", None);
    // Longer than tests hold responses back.
    config.server.request_timeout_ms = 60_000;
    change(&mut config);
    Replica::with_upstream(&config, upstream).await
}
