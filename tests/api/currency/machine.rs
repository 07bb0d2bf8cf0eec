//! The read path against a model: an upstream in memory that follows a script, with a clock of its
//! own, and a few rules for the expected results.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use gene_registry::cache::{CacheReply, ReadError, ReadThrough, Source};
use gene_registry::config::{AgesConfig, Config};
use gene_registry::ops::Metrics;
use gene_registry::registry::{
    ApiKeyRecord, ArenaInsights, DomainName, GeneId, GenePage, GenePhenotype, GeneSearch,
    GeneSummary, KeyHash, RawGene, Request, Timestamp,
};
use gene_registry::upstream::{
    Change, ChangeScope, Changes, Read, ReadStamp, Snapshot, Upstream, UpstreamClient,
    UpstreamError,
};
use jiff::SignedDuration;
use proptest::prelude::*;
use uuid::Uuid;

use crate::support::replica::config;

const FRESH: i64 = 1_000;
const STALE: i64 = 1_000;
const IF_ERROR: i64 = 5_000;

/// Long enough for two polls of the log, on a clock that jumps ahead whenever all tasks are idle.
const SETTLE: Duration = Duration::from_millis(2_500);

#[derive(Debug, Clone, Copy)]
enum Step {
    /// Time passes, in seconds.
    Wait(i64),
    /// The gene gets a new version, published or not.
    Change {
        published: bool,
    },
    /// The database becomes unavailable (it refuses or hangs), or available again.
    Away {
        refuses: bool,
    },
    Back,
    /// Only the log becomes unreadable, or readable again.
    LogAway,
    LogBack,
    /// A request for the gene.
    Ask,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => prop_oneof![Just(50_i64), Just(400), Just(950), Just(2_500)].prop_map(Step::Wait),
        2 => prop::bool::weighted(0.7).prop_map(|published| Step::Change { published }),
        1 => any::<bool>().prop_map(|refuses| Step::Away { refuses }),
        2 => Just(Step::Back),
        1 => Just(Step::LogAway),
        1 => Just(Step::LogBack),
        8 => Just(Step::Ask),
    ]
}

/// The state of the upstream.
#[derive(Debug, Clone)]
struct World {
    /// Whole seconds. Reads are stamped half a second earlier, so that no age is exactly at a
    /// bound.
    now: Timestamp,
    version: u64,
    published: bool,
    away: Option<bool>,
    log_away: bool,
    /// The number of phenotypes read.
    loads: usize,
}

struct Scripted(Mutex<World>);

impl Scripted {
    fn world(&self) -> MutexGuard<'_, World> {
        self.0.lock().unwrap()
    }

    fn there(world: &World) -> Result<(), UpstreamError> {
        match world.away {
            None => Ok(()),
            Some(true) => Err(UpstreamError::Unreachable("refused".into())),
            Some(false) => Err(UpstreamError::Timeout),
        }
    }
}

/// Version n is committed by transaction 10 + n.
fn snapshot(version: u64) -> Option<Snapshot> {
    format!("{0}:{0}:", version + 11).parse().ok()
}

fn id() -> GeneId {
    Uuid::from_u128(7).into()
}

#[async_trait]
impl Upstream for Scripted {
    async fn search(&self, _: &GeneSearch) -> Result<Read<GenePage>, UpstreamError> {
        unreachable!("nobody searches")
    }

    async fn page(&self, _: &GeneSearch) -> Result<Read<Vec<GeneSummary>>, UpstreamError> {
        unreachable!("nobody searches")
    }

    async fn phenotype(&self, _: GeneId) -> Result<Read<Option<GenePhenotype>>, UpstreamError> {
        let mut world = self.world();
        world.loads += 1;
        Self::there(&world)?;
        let read_at = world.now - SignedDuration::from_millis(500);
        let gene = RawGene {
            id: id().uuid(),
            name: Some(format!("version {}", world.version)),
            domain: Some("d".to_owned()),
            fidelity: Some("Native".to_owned()),
            ..RawGene::default()
        };
        let value = world.published.then(|| gene.into_phenotype("{id}")).transpose()?;
        Ok(Read { value, seen: ReadStamp::new(read_at, snapshot(world.version)) })
    }

    async fn insights(
        &self,
        _: &DomainName,
        _: Timestamp,
    ) -> Result<Read<Option<ArenaInsights>>, UpstreamError> {
        unreachable!("nobody asks for insights")
    }

    async fn api_keys(
        &self,
        _: &[KeyHash],
    ) -> Result<Read<Vec<Option<ApiKeyRecord>>>, UpstreamError> {
        unreachable!("nobody sends a key")
    }

    async fn changes(&self, since: Option<&Snapshot>) -> Result<Read<Changes>, UpstreamError> {
        let world = self.world();
        Self::there(&world)?;
        if world.log_away {
            return Err(UpstreamError::Failed("permission denied".into()));
        }
        let news = (1..=world.version).map(|version| version + 10);
        let news = news.filter(|xid| since.is_none_or(|since| !since.sees(*xid)));
        let changes = news.map(|xid| Change { scope: ChangeScope::Gene(id()), xid }).collect();
        let seen = ReadStamp::new(world.now, snapshot(world.version));
        Ok(Read { value: Changes::These(changes), seen })
    }

    async fn ping(&self) -> Result<Timestamp, UpstreamError> {
        let world = self.world();
        Self::there(&world).map(|()| world.now)
    }
}

/// A state of the gene that the replica has read.
#[derive(Debug, Clone, Copy)]
struct Kept {
    version: u64,
    read_at: Timestamp,
}

/// The result of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Sent(u64, Source),
    NotFound,
    Failed,
}

/// The rules of the read path, in as few lines as possible.
#[derive(Debug, Default)]
struct Model {
    kept: Option<Kept>,
    /// Set while the newest read found the gene unpublished.
    absent: Option<Kept>,
    /// The version of the last change in the log, and when the log was last read.
    known: u64,
    looked_at: Timestamp,
    failing: bool,
    /// The time that the upstream last reported.
    now: Timestamp,
}

impl Model {
    fn look(&mut self, world: &World) {
        if world.away.is_none() {
            self.now = world.now;
        }
        self.failing = world.away.is_some() || world.log_away;
        if !self.failing {
            (self.known, self.looked_at) = (world.version, world.now);
        }
    }

    fn is_current(&self, what: Kept) -> bool {
        what.version >= self.known && !(self.failing && what.read_at <= self.looked_at)
    }

    /// The expected result of a request, and the expected number of reads.
    fn ask(&mut self, world: &World) -> (Outcome, usize) {
        let now = self.now;
        let age = |kept: Kept, limit: i64| {
            now.duration_since(kept.read_at)
                < SignedDuration::from_secs(limit) * i32::from(1000 - shortening(kept)) / 1000
        };
        if let Some(kept) = self.kept
            && self.is_current(kept)
            && age(kept, FRESH + STALE)
        {
            let refreshed = !age(kept, FRESH) && world.away.is_none();
            if refreshed {
                self.read(world);
            }
            return (Outcome::Sent(kept.version, Source::Local), usize::from(refreshed));
        }
        if self.absent.is_some_and(|absent| self.is_current(absent)) {
            return (Outcome::NotFound, 0);
        }
        if world.away.is_none() {
            self.read(world);
            let read = self.kept.map(|kept| Outcome::Sent(kept.version, UPSTREAM));
            return (read.unwrap_or(Outcome::NotFound), 1);
        }
        match self.kept {
            Some(kept) if age(kept, IF_ERROR) => {
                (Outcome::Sent(kept.version, Source::StaleIfError), 0)
            }
            _ => (Outcome::Failed, 1),
        }
    }

    fn read(&mut self, world: &World) {
        let read_at = world.now - SignedDuration::from_millis(500);
        let read = Some(Kept { version: world.version, read_at });
        (self.kept, self.absent) = if world.published { (read, None) } else { (None, read) };
    }
}

const UPSTREAM: Source = Source::Upstream { collapsed: false };

/// The jitter of a time to live, in thousandths: a function of the cache key and the time of the
/// read.
fn shortening(kept: Kept) -> u16 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(format!("phenotype:{}", id()).as_bytes());
    hasher.update(&kept.read_at.as_microsecond().to_be_bytes());
    (hasher.finalize() % 201) as u16
}

fn outcome(result: Result<CacheReply, ReadError>) -> Outcome {
    match result {
        Ok(served) => {
            let body: serde_json::Value = serde_json::from_slice(&served.entry.body).unwrap();
            let version = body["name"].as_str().unwrap().strip_prefix("version ").unwrap();
            Outcome::Sent(version.parse().unwrap(), served.source)
        }
        Err(ReadError::NotFound) => Outcome::NotFound,
        Err(ReadError::Upstream(_)) => Outcome::Failed,
        Err(ReadError::Overloaded) => panic!("one request at a time is never too much"),
        Err(ReadError::Crashed(crashed)) => panic!("{crashed}"),
    }
}

fn ages() -> Config {
    let mut config = config("", None);
    let seconds = |seconds: i64| seconds as u64;
    config.cache.phenotype = AgesConfig {
        fresh_s: seconds(FRESH),
        stale_s: seconds(STALE),
        if_error_s: seconds(IF_ERROR),
    };
    // Long, since the age of a cached 404 is measured by the real clock.
    config.cache.not_found_s = 3_600;
    config
}

/// Runs all steps; the error describes the first result that deviates from the model.
async fn follow(steps: &[Step]) -> Result<(), String> {
    let now = Timestamp::from_second(1_800_000_000).unwrap();
    let world = World { now, version: 0, published: true, away: None, log_away: false, loads: 0 };
    let scripted = Arc::new(Scripted(Mutex::new(world)));
    let upstream = UpstreamClient::new(Arc::clone(&scripted) as Arc<dyn Upstream>);
    let reads =
        ReadThrough::new(&ages(), None, Arc::clone(&upstream), Arc::new(Metrics::default()));
    let looks = tokio::spawn(upstream.watch());
    let (mut model, request) = (Model::default(), Request::Phenotype(id()));
    tokio::time::sleep(SETTLE).await;
    model.look(&scripted.world().clone());
    for (number, step) in steps.iter().enumerate() {
        if let Step::Ask = step {
            let world = scripted.world().clone();
            let expected = model.ask(&world);
            let found = outcome(reads.get(&request).await);
            // A background refresh happens after the response.
            tokio::time::sleep(Duration::from_millis(1)).await;
            let found = (found, scripted.world().loads - world.loads);
            if found != expected {
                return Err(format!("step {number}: {found:?} and not {expected:?}: {world:?}"));
            }
            continue;
        }
        {
            let mut world = scripted.world();
            let mut passes = 1;
            match *step {
                Step::Wait(seconds) => passes = seconds,
                Step::Change { published } => {
                    world.version += 1;
                    world.published = published;
                }
                Step::Away { refuses } => world.away = Some(refuses),
                Step::Back => world.away = None,
                Step::LogAway => world.log_away = true,
                Step::LogBack => world.log_away = false,
                Step::Ask => {}
            }
            world.now += SignedDuration::from_secs(passes);
        }
        tokio::time::sleep(SETTLE).await;
        model.look(&scripted.world().clone());
    }
    looks.abort();
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn what_is_sent_is_what_the_rules_say(steps in prop::collection::vec(step(), 1..40)) {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_time().start_paused(true).build().unwrap();
        let followed = runtime.block_on(follow(&steps));
        prop_assert!(followed.is_ok(), "{}", followed.unwrap_err());
    }
}
