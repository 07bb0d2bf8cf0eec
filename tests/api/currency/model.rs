//! The read path against a model: an upstream in memory that follows a script, with a clock of its
//! own, and a few rules for the expected results.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use gene_registry::cache::{CacheReply, ReadError, ReadThrough, Source};
use gene_registry::config::{AgesConfig, Config};
use gene_registry::ops::Metrics;
use gene_registry::registry::{Request, Timestamp};
use gene_registry::upstream::{BootInstant, ChangePoller, Upstream, UpstreamClient};
use jiff::SignedDuration;
use proptest::prelude::*;

use super::scripted_upstream::{ScriptedUpstream, UpstreamState, id};
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
    Unavailable {
        refuses: bool,
    },
    Available,
    /// Only the log becomes unreadable, or readable again.
    LogUnreadable,
    LogReadable,
    /// A request for the gene.
    Request,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => prop_oneof![Just(50_i64), Just(400), Just(950), Just(2_500)].prop_map(Step::Wait),
        2 => prop::bool::weighted(0.7).prop_map(|published| Step::Change { published }),
        1 => any::<bool>().prop_map(|refuses| Step::Unavailable { refuses }),
        2 => Just(Step::Available),
        1 => Just(Step::LogUnreadable),
        1 => Just(Step::LogReadable),
        8 => Just(Step::Request),
    ]
}

/// A state of the gene that the replica has read.
#[derive(Debug, Clone, Copy)]
struct KnownState {
    version: u64,
    read_at: Timestamp,
}

/// The result of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReadOutcome {
    Sent(u64, Source),
    NotFound,
    Failed,
}

/// The rules of the read path, in as few lines as possible.
#[derive(Debug, Default)]
struct Model {
    known_state: Option<KnownState>,
    /// Set while the newest read found the gene unpublished.
    absent: Option<KnownState>,
    /// The version of the last change in the log, and when the log was last read.
    known_version: u64,
    polled_at: Timestamp,
}

impl Model {
    fn poll(&mut self, state: &UpstreamState) {
        if state.unavailable.is_none() && !state.log_unreadable {
            (self.known_version, self.polled_at) = (state.version, state.now);
        }
    }

    fn is_outdated(&self, what: KnownState) -> bool {
        what.version < self.known_version
    }

    fn is_confirmed(&self, what: KnownState, now: Timestamp) -> bool {
        now.duration_since(what.read_at.max(self.polled_at)) < SignedDuration::from_secs(2)
    }

    /// The expected result of a request, and the expected number of reads.
    fn request(&mut self, state: &UpstreamState) -> (ReadOutcome, usize) {
        let (now, is_available) = (state.now, state.unavailable.is_none());
        let age = |known_state: KnownState, limit: i64| {
            now.duration_since(known_state.read_at)
                < SignedDuration::from_secs(limit) * i32::from(1000 - ttl_jitter(known_state))
                    / 1000
        };
        if let Some(known_state) = self.known_state
            && !self.is_outdated(known_state)
            && age(known_state, FRESH + STALE)
        {
            let is_confirmed = self.is_confirmed(known_state, now);
            let sent = |source| ReadOutcome::Sent(known_state.version, source);
            return match (is_confirmed, is_available) {
                (true, true) if !age(known_state, FRESH) => {
                    self.read(state);
                    (sent(Source::Local), 1)
                }
                (true, _) => (sent(Source::Local), 0),
                (false, true) => (self.read(state), 1),
                (false, false) => (sent(Source::Unconfirmed), 0),
            };
        }
        if self
            .absent
            .is_some_and(|absent| !self.is_outdated(absent) && self.is_confirmed(absent, now))
        {
            return (ReadOutcome::NotFound, 0);
        }
        if is_available {
            return (self.read(state), 1);
        }
        match self.known_state {
            Some(known_state) if age(known_state, IF_ERROR) => {
                (ReadOutcome::Sent(known_state.version, Source::StaleIfError), 0)
            }
            _ if self.absent.is_some_and(|absent| !self.is_outdated(absent)) => {
                (ReadOutcome::NotFound, 1)
            }
            _ => (ReadOutcome::Failed, 1),
        }
    }

    fn read(&mut self, state: &UpstreamState) -> ReadOutcome {
        let read_at = state.now - SignedDuration::from_millis(500);
        let read = Some(KnownState { version: state.version, read_at });
        (self.known_state, self.absent) = if state.published { (read, None) } else { (None, read) };
        if state.published {
            ReadOutcome::Sent(state.version, UPSTREAM)
        } else {
            ReadOutcome::NotFound
        }
    }
}

const UPSTREAM: Source = Source::Upstream { collapsed: false };

/// The jitter of a time to live, in thousandths: a function of the cache key and the time of the
/// read.
fn ttl_jitter(known_state: KnownState) -> u16 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(format!("phenotype:{}", id()).as_bytes());
    hasher.update(&known_state.read_at.as_microsecond().to_be_bytes());
    (hasher.finalize() % 201) as u16
}

fn outcome(result: Result<CacheReply, ReadError>) -> ReadOutcome {
    match result {
        Ok(reply) => {
            let body: serde_json::Value = serde_json::from_slice(&reply.entry.body).unwrap();
            let version = body["name"].as_str().unwrap().strip_prefix("version ").unwrap();
            ReadOutcome::Sent(version.parse().unwrap(), reply.source)
        }
        Err(ReadError::NotFound) => ReadOutcome::NotFound,
        Err(ReadError::Upstream(_)) => ReadOutcome::Failed,
        Err(ReadError::Overloaded) => panic!("a single request is never shed"),
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
async fn run_steps(steps: &[Step]) -> Result<(), String> {
    let now = Timestamp::from_second(1_800_000_000).unwrap();
    let state = UpstreamState {
        now,
        version: 0,
        published: true,
        unavailable: None,
        log_unreadable: false,
        loads: 0,
    };
    let upstream_script = Arc::new(ScriptedUpstream(Mutex::new(state)));
    let upstream = UpstreamClient::new(Arc::clone(&upstream_script) as Arc<dyn Upstream>);
    let reads =
        ReadThrough::new(&ages(), None, Arc::clone(&upstream), Arc::new(Metrics::default()));
    let polls = tokio::spawn(ChangePoller::new(upstream).run());
    let (mut model, request) = (Model::default(), Request::Phenotype(id()));
    tokio::time::sleep(SETTLE).await;
    model.poll(&upstream_script.state().clone());
    for (number, step) in steps.iter().enumerate() {
        if let Step::Request = step {
            let state = upstream_script.state().clone();
            let expected = model.request(&state);
            let found = outcome(reads.get(&request).await);
            // A background refresh happens after the response.
            tokio::time::sleep(Duration::from_millis(1)).await;
            let found = (found, upstream_script.state().loads - state.loads);
            if found != expected {
                return Err(format!("step {number}: {found:?} and not {expected:?}: {state:?}"));
            }
            continue;
        }
        {
            let mut state = upstream_script.state();
            let mut passes = 1;
            match *step {
                Step::Wait(seconds) => passes = seconds,
                Step::Change { published } => {
                    state.version += 1;
                    state.published = published;
                }
                Step::Unavailable { refuses } => state.unavailable = Some(refuses),
                Step::Available => state.unavailable = None,
                Step::LogUnreadable => state.log_unreadable = true,
                Step::LogReadable => state.log_unreadable = false,
                Step::Request => {}
            }
            state.now += SignedDuration::from_secs(passes);
            BootInstant::skip(Duration::from_secs(passes.unsigned_abs()));
        }
        tokio::time::sleep(SETTLE).await;
        model.poll(&upstream_script.state().clone());
    }
    polls.abort();
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn results_agree_with_the_model(steps in prop::collection::vec(step(), 1..40)) {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_time().start_paused(true).build().unwrap();
        let result = runtime.block_on(run_steps(&steps));
        prop_assert!(result.is_ok(), "{}", result.unwrap_err());
    }
}
