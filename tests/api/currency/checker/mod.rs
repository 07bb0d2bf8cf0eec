//! The black-box checker: replicas in processes of their own answer requests while genes and keys
//! are changed and a seeded schedule injects faults. It judges from outside only: what was
//! committed when, and what was answered when. [`rules`] has the rules, [`faults`] the faults.
//!
//! - `GENE_REGISTRY_CHECKER_SEED` chooses the schedule (2). `tests/more` adds others and a random one.
//! - `GENE_REGISTRY_CHECKER_SECONDS` sets the duration of the faults (60).
//! - `GENE_REGISTRY_CHECKER_FAULTS` limits the faults to those named, separated by commas; `none`
//!   is none.
//! - `GENE_REGISTRY_CHECKER_PROGRAM` is the program under test; the default is this build.

mod dump;
mod faults;
mod history;
mod load;
mod rules;
mod run;
mod subjects;
mod world;

use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::{Instant, timeout};

use self::run::CheckerRun;
use self::subjects::requests;
use self::world::{Ages, SLOTS};
use crate::support::need_own_servers;
use crate::support::random::Random;
use crate::support::wait::eventually;

/// All replicas must have recovered within this time after the last fault.
const RECOVERY_LIMIT: Duration = Duration::from_secs(10);

/// The last faults and the recovery take less than this.
const END_LIMIT: Duration = Duration::from_secs(120);

/// The lines of the log of a replica that has not recovered.
const LAST_LINES: usize = 30;

fn from_environment(name: &str) -> Option<u64> {
    let value = std::env::var(name).ok()?;
    Some(value.parse().unwrap_or_else(|_| panic!("{name}: {value}")))
}

impl CheckerRun {
    /// Waits until no replica serves stale entries or errors after the last fault.
    async fn wait_for_recovery(&self) {
        let client = reqwest::Client::new();
        for replica in self.world.running() {
            let what = format!("replica {} has recovered", replica.number);
            let recovered = eventually(2 * RECOVERY_LIMIT, &what, || async {
                let mut all = true;
                for request in requests().concat() {
                    let response = self.get(&client, &replica, &request.path, &self.key).await;
                    all &= response.is_ok_and(|response| {
                        !response.header("cache-status").contains("stale")
                            && matches!(response.status.as_u16(), 200 | 404)
                    });
                }
                all
            });
            if timeout(RECOVERY_LIMIT, recovered).await.is_err() {
                let log = replica.process.log();
                let last: Vec<&str> = log.lines().rev().take(LAST_LINES).collect();
                let what = format!("replica {}, whose last lines are {last:#?}", replica.number);
                self.log_unexpected("a replica has not recovered", what);
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_replica_serves_outdated_data_under_any_fault() {
    need_own_servers!();
    let seed = from_environment("GENE_REGISTRY_CHECKER_SEED").unwrap_or(2);
    let seconds = from_environment("GENE_REGISTRY_CHECKER_SECONDS").unwrap_or(60);
    println!("GENE_REGISTRY_CHECKER_SEED={seed} GENE_REGISTRY_CHECKER_SECONDS={seconds}");
    let ages = if seed.is_multiple_of(2) { Ages::Long } else { Ages::Short };
    let run = CheckerRun::start(ages).await;
    join_all((0..SLOTS).map(|slot| faults::start_replica(&run, slot))).await;
    let faults = async {
        run.inject_faults(seed, Instant::now() + Duration::from_secs(seconds)).await;
        run.wait_for_recovery().await;
        run.is_over.set(true);
    };
    let readers = (0..SLOTS)
        .flat_map(|slot| requests().into_iter().map(move |requests| (slot, requests)))
        .map(|(slot, requests)| run.read(slot, requests));
    let parts = async {
        tokio::join!(
            faults,
            join_all(readers),
            run.write_genes(Random::new(seed, 1)),
            run.write_keys(Random::new(seed, 2)),
            run.measure_delay(),
        )
    };
    if timeout(Duration::from_secs(seconds) + END_LIMIT, parts).await.is_err() {
        run.log_unexpected("the run has not ended", "see the last faults".to_owned());
    }
    match run.judge() {
        Ok(summary) => println!("{summary}"),
        Err(violations) => panic!("seed {seed}, {seconds} s: {violations}"),
    }
}
