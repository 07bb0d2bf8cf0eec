//! Tests of the estimate of the database's clock, and of panics in polls and pings.

#[path = "client_standby_tests.rs"]
mod standby;

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use jiff::SignedDuration;
use tokio_util::task::AbortOnDropHandle;

use super::*;
use crate::registry::{
    ApiKeyRecord, ArenaInsights, DomainName, GeneCounts, GeneFilter, GeneId, GenePage,
    GenePhenotype, GeneSearch, GeneSummary, KeyHash, RegistryNumbers,
};
use crate::sync::supervised::panics;
use crate::sync::{lock, supervise};
use crate::upstream::{
    Change, ChangeFeed, ChangePoller, ChangeScope, Changes, Currency, DependsOn, Position, Read,
    RegistryReader, ServerRun, Snapshot, StandbySet,
};

/// The history of each server here.
const HISTORY: History =
    History { cluster: Some(1), database: 2, timeline: Some(3), started_at: 4 };

/// Says how far its clock is ahead of this machine's, and has a change log or none.
#[derive(Default)]
struct Elsewhere {
    ahead: Mutex<SignedDuration>,
    has_log: bool,
    server: Option<ServerRun>,
    /// Whether it is no standby any more.
    is_promoted: AtomicBool,
    standbys: StandbySet,
    /// Whether connections are refused.
    is_down: AtomicBool,
    /// Whether its change log hangs.
    hangs: AtomicBool,
    /// Number of times that the change log was asked for.
    polls: AtomicUsize,
    /// The call that panics next.
    panic_in: Mutex<Option<&'static str>>,
    positions: AtomicUsize,
}

impl Elsewhere {
    fn panic_in(&self, call: &'static str) {
        *lock(&self.panic_in) = Some(call);
    }

    fn called(&self, call: &'static str) {
        let panics = lock(&self.panic_in).take_if(|wanted| *wanted == call).is_some();
        assert!(!panics, "{call}: a panic that the test causes");
    }

    fn server(&self) -> Option<ServerRun> {
        let is_promoted = self.is_promoted.load(Ordering::Relaxed);
        self.server.map(|run| ServerRun { is_standby: run.is_standby && !is_promoted, ..run })
    }

    fn now(&self) -> Timestamp {
        Timestamp::now() + *self.ahead.lock().expect("nothing panics")
    }
}

#[async_trait]
impl RegistryReader for Elsewhere {
    async fn count(&self, _: &GeneFilter) -> Result<Read<GeneCounts>, UpstreamError> {
        Err(UpstreamError::Timeout)
    }

    async fn search(&self, _: &GeneSearch) -> Result<Read<GenePage>, UpstreamError> {
        Err(UpstreamError::Timeout)
    }

    async fn page(&self, _: &GeneSearch) -> Result<Read<Vec<GeneSummary>>, UpstreamError> {
        Err(UpstreamError::Timeout)
    }

    async fn phenotype(&self, _: GeneId) -> Result<Read<Option<GenePhenotype>>, UpstreamError> {
        Err(UpstreamError::Timeout)
    }

    async fn insights(
        &self,
        _: &DomainName,
        _: Timestamp,
    ) -> Result<Read<Option<ArenaInsights>>, UpstreamError> {
        Err(UpstreamError::Timeout)
    }

    async fn numbers(&self) -> Result<Read<RegistryNumbers>, UpstreamError> {
        Err(UpstreamError::Timeout)
    }

    async fn api_keys(
        &self,
        hashes: &[KeyHash],
    ) -> Result<Read<Vec<Option<ApiKeyRecord>>>, UpstreamError> {
        if self.is_down.load(Ordering::Relaxed) {
            return Err(UpstreamError::Unreachable("the test says so".into()));
        }
        let seen = ReadStamp { server: self.server(), ..ReadStamp::new(self.now(), None) };
        Ok(Read { value: vec![None; hashes.len()], seen })
    }
}

#[async_trait]
impl ChangeFeed for Elsewhere {
    async fn changes(&self, _: Option<&Snapshot>) -> Result<Read<Changes>, UpstreamError> {
        self.called("changes");
        self.polls.fetch_add(1, Ordering::Relaxed);
        if self.hangs.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
        if self.has_log {
            let seen = ReadStamp::new(self.now(), "10:10:".parse().ok());
            let seen = ReadStamp { server: self.server(), ..seen };
            Ok(Read { value: Changes::These(vec![]), seen })
        } else {
            Ok(Read { value: Changes::NoLog, seen: ReadStamp::new(self.now(), None) })
        }
    }

    async fn position(&self) -> Result<Position, UpstreamError> {
        self.positions.fetch_add(1, Ordering::Relaxed);
        self.called("position");
        if self.is_down.load(Ordering::Relaxed) {
            return Err(UpstreamError::Unreachable("the test says so".into()));
        }
        let alone = Position::without_server(self.now());
        Ok(Position { history: HISTORY, server: self.server(), wal: Some(10), ..alone })
    }
}

impl Upstream for Elsewhere {
    fn standbys(&self) -> StandbySet {
        self.standbys.clone()
    }
}

/// Waits for a condition, for at most a minute of the runtime's time.
#[track_caller]
fn until(condition: impl Fn() -> bool) -> impl Future<Output = ()> {
    let caller = std::panic::Location::caller();
    async move {
        let waited = tokio::time::timeout(Duration::from_secs(60), async {
            while !condition() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        });
        waited.await.unwrap_or_else(|_| panic!("{caller}: not within a minute"));
    }
}

/// A client of `elsewhere` that polls it.
async fn watching(elsewhere: &Arc<Elsewhere>) -> (Arc<UpstreamClient>, AbortOnDropHandle<()>) {
    let client = UpstreamClient::new(Arc::clone(elsewhere) as Arc<dyn Upstream>);
    let watched = Arc::clone(&client);
    let task = supervise("test_polls", move || ChangePoller::new(Arc::clone(&watched)).run());
    until(|| client.log.is_settled()).await;
    (client, task)
}

fn follows(client: &UpstreamClient, ahead: SignedDuration) -> bool {
    let found = client.now().duration_since(Timestamp::now());
    (found - ahead).abs() < SignedDuration::from_secs(10)
}

#[tokio::test]
async fn the_clock_follows_the_database_with_and_without_a_change_log() {
    for has_log in [true, false] {
        let hour = SignedDuration::from_hours(1);
        let ahead = Mutex::new(hour);
        let elsewhere = Arc::new(Elsewhere { ahead, has_log, ..Elsewhere::default() });
        let client = UpstreamClient::new(Arc::clone(&elsewhere) as Arc<dyn Upstream>);
        assert!(follows(&client, SignedDuration::ZERO));
        for ahead in [hour, -2 * hour, SignedDuration::ZERO, hour] {
            *elsewhere.ahead.lock().expect("nothing panics") = ahead;
            let polls = ChangePoller::new(Arc::clone(&client)).run();
            tokio::select! {
                () = polls => panic!("it runs forever"),
                () = until(|| follows(&client, ahead)) => {}
            }
        }
        assert!(client.log.is_settled() && client.is_in_use());
    }
}

#[tokio::test(start_paused = true)]
async fn after_a_panic_in_a_poll_nothing_is_confirmed_until_the_next_poll() {
    let elsewhere = Arc::new(Elsewhere { has_log: true, ..Elsewhere::default() });
    let (client, _task) = watching(&elsewhere).await;
    let seen = client.log.read_start().stamp(ReadStamp::new(client.now(), "10:10:".parse().ok()));
    let currency = || client.log.currency(DependsOn::AllGenes, &seen, BootInstant::now());
    elsewhere.panic_in("changes");
    until(|| lock(&elsewhere.panic_in).is_none()).await;
    BootInstant::skip(Duration::from_secs(2));
    assert_eq!(currency(), Currency::Unconfirmed);
    let polls = client.polls();
    until(|| client.polls().succeeded > polls.succeeded).await;
    assert_eq!(currency(), Currency::Confirmed);
}

#[tokio::test(start_paused = true)]
async fn after_a_panic_in_a_ping_the_next_timeout_is_followed_by_a_ping() {
    let elsewhere = Arc::new(Elsewhere::default());
    let client = UpstreamClient::new(Arc::clone(&elsewhere) as Arc<dyn Upstream>);
    let before = panics()["database_pings"];
    elsewhere.panic_in("position");
    for count in 1..=2 {
        let gene = uuid::Uuid::nil().into();
        let read = |from: Arc<dyn Upstream>| async move { from.phenotype(gene).await };
        let read = client.read_genes(DependsOn::Gene(gene), None, read).await;
        assert!(matches!(read, Err(UpstreamError::Timeout)), "{read:?}");
        until(|| elsewhere.positions.load(Ordering::Relaxed) == count).await;
    }
    assert_eq!(panics()["database_pings"], before + 1);
}
