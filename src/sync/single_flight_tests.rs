//! SingleFlight, also with many racing tasks.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use futures_util::FutureExt;
use tokio::sync::Semaphore;

use super::*;

#[tokio::test]
async fn concurrent_callers_share_one_piece_of_work() {
    let (flights, runs) = (SingleFlight::new("test_flights"), Arc::new(AtomicU32::new(0)));
    let gate = Arc::new(Semaphore::new(0));
    let work = || {
        let (runs, gate) = (Arc::clone(&runs), Arc::clone(&gate));
        async move {
            let _permit = gate.acquire().await;
            runs.fetch_add(1, Ordering::Relaxed) + 1
        }
    };
    // The first caller stops waiting at once; the others still get the result of its work.
    assert!(flights.run(&1, work).now_or_never().is_none());
    let waiting = futures_util::future::join_all((0..50).map(|_| flights.run(&1, work)));
    gate.add_permits(1);
    for outcome in waiting.await {
        assert_eq!(outcome, Ok(FlightOutcome { value: 1, joined: true }));
    }
    gate.add_permits(1);
    assert_eq!(flights.run(&1, work).await, Ok(FlightOutcome { value: 2, joined: false }));
}

#[tokio::test]
async fn work_that_began_too_early_for_a_caller_is_begun_anew_and_replaced() {
    let flights: SingleFlight<u8, u32, u32> = SingleFlight::new("test_flights");
    let gate = Arc::new(Semaphore::new(0));
    let run = |beginning, first| {
        let gate = Arc::clone(&gate);
        let work = move || async move {
            gate.acquire().await.expect("it is open").forget();
            beginning
        };
        flights.run_if(&1, beginning, move |begun| *begun >= first, work)
    };
    let outcome = |value, joined| Ok(FlightOutcome { value, joined });
    let (mut old, mut new) = (Box::pin(run(1, 0)), Box::pin(run(2, 2)));
    assert!((&mut old).now_or_never().is_none() && (&mut new).now_or_never().is_none());
    let mut joined = Box::pin(run(3, 2));
    assert!((&mut joined).now_or_never().is_none());
    // The older work ends first; the newer stays under way.
    gate.add_permits(1);
    assert_eq!(old.await, outcome(1, false));
    let mut late = Box::pin(run(4, 1));
    assert!((&mut late).now_or_never().is_none());
    gate.add_permits(1);
    assert_eq!((new.await, joined.await), (outcome(2, false), outcome(2, true)));
    assert_eq!(late.await, outcome(2, true));
    assert!(lock(&flights.under_way).is_empty());
}

#[tokio::test]
async fn a_panic_reaches_all_waiting_callers_and_leaves_no_entry() {
    let flights: SingleFlight<u8, u8> = SingleFlight::new("test_flights");
    assert_eq!(flights.run(&1, || async { panic!("crash") }).await, Err(TaskPanicked));
    let outcome = flights.run(&1, || async { 7 }).await;
    assert_eq!(outcome, Ok(FlightOutcome { value: 7, joined: false }));
}

#[tokio::test]
async fn work_that_panics_before_it_begins_leaves_no_entry() {
    let flights: SingleFlight<u8, u8> = SingleFlight::new("test_flights");
    let begun = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        flights.spawn(&1, (), || -> std::future::Ready<u8> { panic!("crash") });
    }));
    assert!(begun.is_err());
    let outcome = flights.run(&1, || async { 7 }).await;
    assert_eq!(outcome, Ok(FlightOutcome { value: 7, joined: false }));
}

#[tokio::test]
async fn work_of_a_runtime_that_shut_down_leaves_no_entry() {
    let flights: Arc<SingleFlight<u8, u8>> = Arc::new(SingleFlight::new("test_flights"));
    let shared = Arc::clone(&flights);
    let gone = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(async { shared.spawn(&1, (), std::future::pending) });
    });
    gone.join().expect("it ends");
    assert_eq!(flights.run(&1, || async { 7 }).await.map(|outcome| outcome.value), Ok(7));
}

/// A sequence of numbers that a seed gives again (xorshift, Marsaglia 2003).
struct RandomNumbers(u64);

impl RandomNumbers {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

const KEYS: usize = 3;

/// What many tasks see of one set of flights.
struct Witness {
    flights: SingleFlight<usize, u32>,
    running: [AtomicBool; KEYS],
    runs: AtomicU32,
    answers: AtomicU32,
}

impl Default for Witness {
    fn default() -> Self {
        Self {
            flights: SingleFlight::new("test_flights"),
            running: Default::default(),
            runs: AtomicU32::new(0),
            answers: AtomicU32::new(0),
        }
    }
}

/// Ends a run when it is dropped.
struct Run(Arc<Witness>, usize);

impl Run {
    fn begin(witness: &Arc<Witness>, key: usize) -> Self {
        let was_running = witness.running[key].swap(true, Ordering::SeqCst);
        assert!(!was_running, "two runs under way for one key");
        witness.runs.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(witness), key)
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        self.0.running[self.1].store(false, Ordering::SeqCst);
    }
}

async fn pause(turns: u64) {
    for _ in 0..turns {
        tokio::task::yield_now().await;
    }
}

/// One task's requests: some leave, some work crashes, all of it at moments that the seed gives.
async fn ask(witness: Arc<Witness>, seed: u64) {
    let mut numbers = RandomNumbers(seed | 1);
    for _ in 0..8 {
        let key = numbers.below(KEYS as u64) as usize;
        let (turns, crashes, max_turns) =
            (numbers.below(4), numbers.below(9) == 0, numbers.below(6));
        let worker = Arc::clone(&witness);
        let work = move || async move {
            let run = Run::begin(&worker, key);
            pause(turns).await;
            assert!(!crashes, "crash");
            drop(run);
            key as u32
        };
        pause(numbers.below(3)).await;
        let outcome = tokio::select! {
            biased;
            outcome = witness.flights.run(&key, work) => outcome,
            () = pause(max_turns), if max_turns < 3 => continue,
        };
        // A panic is reported as one, and never as the value of another key.
        assert!(outcome.is_err() || outcome.is_ok_and(|outcome| outcome.value == key as u32));
        witness.answers.fetch_add(1, Ordering::SeqCst);
    }
}

/// Over many interleavings on several threads: never two runs for one key, nobody waits for
/// ever, and neither leavers nor crashes leave anything behind. A failure names its seed.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn racing_tasks_share_runs_and_all_get_a_result() {
    for round in 0..300_u64 {
        let seed = 0x9E37_79B9_7F4A_7C15_u64.wrapping_mul(round + 1);
        let witness = Arc::<Witness>::default();
        let tasks = (0..24_u64).map(|n| {
            let seed = seed ^ n.wrapping_mul(0xD1B5_4A32_D192_ED03);
            tokio::spawn(ask(Arc::clone(&witness), seed))
        });
        let all = futures_util::future::join_all(tasks.collect::<Vec<_>>());
        let ended = tokio::time::timeout(Duration::from_secs(30), all).await;
        for task in ended.unwrap_or_else(|_| panic!("somebody waits for ever; seed {seed:#x}")) {
            assert!(task.is_ok(), "seed {seed:#x}: {task:?}");
        }
        // Work that callers began before they stopped waiting ends too.
        for key in 0..KEYS {
            let outcome = witness.flights.run(&key, move || async move { key as u32 }).await;
            drop(outcome);
            let outcome = witness.flights.run(&key, move || async move { 100 + key as u32 }).await;
            assert!(
                outcome.is_ok_and(|outcome| outcome.value == 100 + key as u32),
                "seed {seed:#x}"
            );
        }
        assert!(lock(&witness.flights.under_way).is_empty(), "seed {seed:#x}");
        let (runs, answers) = (&witness.runs, &witness.answers);
        assert!(runs.load(Ordering::SeqCst) > 0 && answers.load(Ordering::SeqCst) > 0);
    }
}

#[test]
fn the_end_of_the_runtime_is_no_panic_of_the_work() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build();
    let runtime = runtime.expect("a runtime");
    let flight: SingleFlight<u8, u8> = SingleFlight::new("test");
    let begun = runtime.block_on(async { flight.spawn(&1, (), std::future::pending) });
    drop(runtime);
    // It would be an error if the sender had been dropped.
    assert_eq!(begun.expect("begun").has_changed().ok(), Some(false));
}
