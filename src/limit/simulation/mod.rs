//! Simulates many small worlds: replicas with the real limiter, batches and memory, over a model of
//! Redis and of each replica's link to it. Time is the runtime's paused clock, which advances only
//! while all tasks wait. All choices come from one seed, so a world that fails can be run again:
//!
//! ```text
//! LIMIT_SIMULATION_SEED=1234 cargo test --lib limit::simulation
//! ```

mod check;
mod random;
mod redis;
mod stories;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};

use check::Coverage;
use random::SeededRandom;

const SEEDS: u64 = 10_000;
const SEED_VARIABLE: &str = "LIMIT_SIMULATION_SEED";

fn run(seed: u64) -> Coverage {
    // A single-threaded runtime for each world, so that the order of events depends on the seed
    // alone.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime");
    runtime.block_on(async { check::check(&world::live(SeededRandom(seed)).await) })
}

fn run_all(seeds: impl Iterator<Item = u64>) -> Coverage {
    seeds.fold(Coverage::default(), |seen, seed| {
        seen + catch_unwind(AssertUnwindSafe(|| run(seed))).unwrap_or_else(|_| {
            panic!("seed {seed} failed; again: {SEED_VARIABLE}={seed} cargo test --lib simulation")
        })
    })
}

#[test]
fn the_bound_holds_in_every_world() {
    if let Ok(seed) = std::env::var(SEED_VARIABLE) {
        println!("{:?}", run_all(std::iter::once(seed.parse().expect("a number"))));
        return;
    }
    let (even, odd) = std::thread::scope(|scope| {
        let even = scope.spawn(|| run_all((0..SEEDS).step_by(2)));
        let odd = scope.spawn(|| run_all((1..SEEDS).step_by(2)));
        (even.join(), odd.join())
    });
    let (Ok(even), Ok(odd)) = (even, odd) else { panic!("a world failed: see above") };
    let seen = even + odd;
    println!("{seen:?}");
    // Every kind of event must have happened, or the simulation proves nothing.
    assert!(seen.windows > SEEDS && seen.exact_windows > SEEDS / 10, "{seen:?}");
    assert!(
        seen.outages > SEEDS && seen.emptied > SEEDS / 10 && seen.abandoned > SEEDS,
        "{seen:?}"
    );
    assert!(seen.refused > SEEDS && seen.beyond_the_limit > SEEDS / 10, "{seen:?}");
}

#[test]
fn a_seed_always_gives_the_same_world() {
    for seed in 0..20 {
        assert_eq!(format!("{:?}", run(seed)), format!("{:?}", run(seed)));
    }
}
