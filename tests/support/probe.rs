//! An upstream that counts its reads, and holds, fails or ages them on demand.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::maybe_done;
use gene_registry::registry::{
    ApiKeyRecord, ArenaInsights, DomainName, GeneCounts, GeneFilter, GeneId, GenePage,
    GenePhenotype, GeneSearch, GeneSummary, KeyHash, RegistryNumbers, Timestamp,
};
use gene_registry::upstream::{
    ChangeFeed, Changes, Position, Read, RegistryReader, Snapshot, Upstream, UpstreamError,
};
use tokio::sync::watch;

/// Pages with a larger offset are deep pages to the service.
const DEEP_OFFSET: u32 = 1000;

/// The maximum time for which a read is held, so that a failing test ends.
const MAX_HOLD: Duration = Duration::from_secs(60);

/// Which reads are held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hold {
    Nothing,
    DeepWalks,
    Everything,
    /// They read, and what they found waits.
    Results,
    /// As `Results`, but of the look-ups of keys.
    Keys,
    /// As `Keys`, but only of the statement with this number, counted from 0.
    KeyStatement(usize),
}

/// A call that panics on demand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PanicIn {
    Changes,
    Keys,
    Reads,
}

/// An upstream around Postgres that tests control. Changes and pings always pass.
pub(crate) struct Probe {
    inner: Arc<dyn Upstream>,
    held: watch::Sender<Hold>,
    fails: AtomicBool,
    panics: Mutex<Option<PanicIn>>,
    older_by_s: AtomicI64,
    /// The snapshot of the first poll of the change log.
    begun: OnceLock<Snapshot>,
    waiting: AtomicUsize,
    /// Counts of a filter, and pages read with their total.
    pub(crate) counted: AtomicUsize,
    /// Pages read without a total.
    pub(crate) pages: AtomicUsize,
    /// Phenotypes and insights.
    pub(crate) others: AtomicUsize,
    /// Look-ups of keys.
    pub(crate) keys: AtomicUsize,
    /// Statements that looked keys up.
    pub(crate) key_statements: AtomicUsize,
}

impl Probe {
    pub(crate) fn new(inner: impl Upstream) -> Arc<Self> {
        Arc::new(Self {
            inner: Arc::new(inner),
            held: watch::Sender::new(Hold::Nothing),
            fails: AtomicBool::new(false),
            panics: Mutex::new(None),
            older_by_s: AtomicI64::new(0),
            begun: OnceLock::new(),
            waiting: AtomicUsize::new(0),
            counted: AtomicUsize::new(0),
            pages: AtomicUsize::new(0),
            others: AtomicUsize::new(0),
            keys: AtomicUsize::new(0),
            key_statements: AtomicUsize::new(0),
        })
    }

    /// From now on these reads wait, until [`Hold::Nothing`] is set.
    pub(crate) fn hold(&self, hold: Hold) {
        self.held.send_replace(hold);
    }

    /// Reads from now on are stamped this many seconds earlier.
    pub(crate) fn age_by(&self, seconds: i64) {
        self.older_by_s.store(seconds, Ordering::SeqCst);
    }

    /// Whether reads fail, as if the database refused a statement.
    pub(crate) fn set_failing(&self, fails: bool) {
        self.fails.store(fails, Ordering::SeqCst);
    }

    /// The next call of this kind panics.
    pub(crate) fn panic_in(&self, call: PanicIn) {
        *self.panics.lock().unwrap() = Some(call);
    }

    /// Whether the panic has happened.
    pub(crate) fn has_panicked(&self) -> bool {
        self.panics.lock().unwrap().is_none()
    }

    fn panic_if_told(&self, call: PanicIn) {
        let told = self.panics.lock().unwrap().take_if(|told| *told == call);
        assert!(told.is_none(), "{call:?}: a panic that the test causes");
    }

    /// The number of held reads.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::SeqCst)
    }

    /// The number of reads so far, without keys.
    pub(crate) fn reads(&self) -> usize {
        let counters = [&self.counted, &self.pages, &self.others];
        counters.iter().map(|counter| counter.load(Ordering::SeqCst)).sum()
    }

    /// Waits while what it is told to hold does not pass.
    async fn pass(&self, passes: impl FnMut(&Hold) -> bool) -> Result<(), UpstreamError> {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let mut held = self.held.subscribe();
        let passed = tokio::time::timeout(MAX_HOLD, held.wait_for(passes)).await.is_ok();
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        if passed { Ok(()) } else { Err(UpstreamError::Timeout) }
    }

    async fn read<T>(
        &self,
        counter: &AtomicUsize,
        is_deep: bool,
        read: impl Future<Output = Result<Read<T>, UpstreamError>>,
    ) -> Result<Read<T>, UpstreamError> {
        self.panic_if_told(PanicIn::Reads);
        counter.fetch_add(1, Ordering::SeqCst);
        let mut read = pin!(maybe_done(read));
        if *self.held.borrow() == Hold::Results {
            read.as_mut().await;
        }
        let passes = |hold: &Hold| match hold {
            Hold::Nothing | Hold::Keys | Hold::KeyStatement(_) => true,
            Hold::DeepWalks => !is_deep,
            Hold::Everything | Hold::Results => false,
        };
        self.pass(passes).await?;
        if self.fails.load(Ordering::SeqCst) {
            return Err(UpstreamError::Failed("told to fail".into()));
        }
        read.as_mut().await;
        let mut read = read.take_output().expect("it has ended")?;
        let older_by = self.older_by_s.load(Ordering::SeqCst);
        if older_by > 0 {
            // An earlier read cannot have seen later transactions.
            let by = Duration::from_secs(older_by.unsigned_abs());
            read.seen.read_at -= jiff::SignedDuration::from_secs(older_by);
            read.seen.began = read.seen.began - by;
            read.seen.snapshot = self.begun.get().cloned();
            read.seen.shown_transactions = read.seen.transactions();
        }
        Ok(read)
    }
}

fn is_deep(search: &GeneSearch) -> bool {
    search.page.offset() > DEEP_OFFSET
}

#[async_trait]
impl RegistryReader for Probe {
    async fn count(&self, filter: &GeneFilter) -> Result<Read<GeneCounts>, UpstreamError> {
        self.read(&self.counted, false, self.inner.count(filter)).await
    }

    async fn search(&self, search: &GeneSearch) -> Result<Read<GenePage>, UpstreamError> {
        self.read(&self.counted, is_deep(search), self.inner.search(search)).await
    }

    async fn page(&self, search: &GeneSearch) -> Result<Read<Vec<GeneSummary>>, UpstreamError> {
        self.read(&self.pages, is_deep(search), self.inner.page(search)).await
    }

    async fn phenotype(&self, id: GeneId) -> Result<Read<Option<GenePhenotype>>, UpstreamError> {
        self.read(&self.others, false, self.inner.phenotype(id)).await
    }

    async fn insights(
        &self,
        domain: &DomainName,
        now: Timestamp,
    ) -> Result<Read<Option<ArenaInsights>>, UpstreamError> {
        self.read(&self.others, false, self.inner.insights(domain, now)).await
    }

    async fn numbers(&self) -> Result<Read<RegistryNumbers>, UpstreamError> {
        self.read(&self.others, false, self.inner.numbers()).await
    }

    async fn api_keys(
        &self,
        hashes: &[KeyHash],
    ) -> Result<Read<Vec<Option<ApiKeyRecord>>>, UpstreamError> {
        self.panic_if_told(PanicIn::Keys);
        self.keys.fetch_add(hashes.len(), Ordering::SeqCst);
        let number = self.key_statements.fetch_add(1, Ordering::SeqCst);
        let read = self.inner.api_keys(hashes).await?;
        self.pass(|hold| ![Hold::Keys, Hold::KeyStatement(number)].contains(hold)).await?;
        Ok(read)
    }
}

#[async_trait]
impl ChangeFeed for Probe {
    async fn changes(&self, since: Option<&Snapshot>) -> Result<Read<Changes>, UpstreamError> {
        self.panic_if_told(PanicIn::Changes);
        let read = self.inner.changes(since).await?;
        if let Some(snapshot) = &read.seen.snapshot {
            self.begun.get_or_init(|| snapshot.clone());
        }
        Ok(read)
    }

    async fn position(&self) -> Result<Position, UpstreamError> {
        self.inner.position().await
    }
}

impl Upstream for Probe {}
