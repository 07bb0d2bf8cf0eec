//! Promotions, and replicas that are replaced.

use std::rc::Rc;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

use super::super::run::CheckerRun;
use super::super::subjects::{STEADY_DOMAIN, stored_versions};
use super::super::world::{FURTHER, RunningReplica, SLOTS, Server};
use super::database::HEALTHY_LOG;
use crate::support::proxy::Mode;
use crate::support::random::Random;
use crate::support::wait::eventually;

/// The slot whose replica is replaced.
const REPLACED: usize = SLOTS - 1;

/// A new replica is ready within this time.
const READY_WITHIN: Duration = Duration::from_secs(15);

/// A new replica answers within this time from a standby while the primary is down.
const STANDBY_USED_WITHIN: Duration = Duration::from_secs(10);

/// The differences of a new standby's clock from the machine's, in seconds.
const CLOCK_ERRORS: &[i64] = &[0, 0, 0, -30, 30];

/// A promotion that loses nothing.
pub(super) async fn promotion(run: &CheckerRun, random: &mut Random) {
    let writes = run.world.writes.write().await;
    let (_, standby) = run.world.pair();
    let standby = run.world.server(standby).unwrap();
    run.world.primary().postgres.wait_for_replay(&standby.postgres).await;
    let lost = kill_primary(run).await;
    sleep(random.millis(0..4_000)).await;
    promote(run, lost).await;
    drop(writes);
    rebuild_standby(run, random).await;
}

/// A promotion that loses what was written in the last seconds. A further standby may have it.
pub(super) async fn lossy_promotion(run: &CheckerRun, random: &mut Random, with_further: bool) {
    if with_further {
        let further = Server::standby_of(run.world.primary(), 0).await;
        run.world.place_server(FURTHER, further);
        sleep(random.millis(1_000..3_000)).await;
    }
    let (_, standby) = run.world.pair();
    let standby = run.world.server(standby).unwrap();
    standby.stream.as_ref().unwrap().set(Mode::Refuse).await;
    run.log_event("the standby receives nothing".to_owned());
    sleep(random.millis(500..3_000)).await;
    let writes = run.world.writes.write().await;
    if let Some(further) = run.world.server(FURTHER) {
        run.world.primary().postgres.wait_for_replay(&further.postgres).await;
    }
    let lost = kill_primary(run).await;
    sleep(random.millis(0..2_000)).await;
    promote(run, lost).await;
    drop(writes);
    if with_further {
        sleep(random.millis(3_000..8_000)).await;
        run.world.kill_server(FURTHER).await;
    }
    rebuild_standby(run, random).await;
}

/// A primary that was killed.
struct LostPrimary {
    killed: Instant,
    clock_shift: i64,
}

async fn kill_primary(run: &CheckerRun) -> LostPrimary {
    run.history.borrow_mut().primary_down.begin();
    let clock_shift = run.world.primary().clock.ahead();
    let lost = LostPrimary { killed: Instant::now(), clock_shift };
    run.log_event("the primary is killed".to_owned());
    run.world.kill_server(run.world.pair().0).await;
    lost
}

/// Promotes the standby, and records the state that the new primary has.
async fn promote(run: &CheckerRun, lost: LostPrimary) {
    run.log_event("the standby is promoted".to_owned());
    run.world.promote().await;
    let client = run.world.connect().await.unwrap();
    let versions = stored_versions(&client, &run.prefixes()).await;
    // The end of a fault of the log may be among what was lost.
    let is_log_broken = {
        let mut history = run.history.borrow_mut();
        history.primary_down.end();
        for (subject, version) in versions.into_iter().enumerate() {
            history.add_state(subject, version, lost.killed);
        }
        let step = run.world.primary().clock.ahead() - lost.clock_shift;
        if step != 0 {
            history.database_steps.push((Instant::now(), step));
        }
        history.log_unreadable.0.last().is_some_and(|(_, end)| end.is_none())
    };
    run.log_event("the standby has been promoted".to_owned());
    if !is_log_broken {
        client.batch_execute(HEALTHY_LOG).await.ok();
    }
}

/// Starts a standby of the new primary in the place of the old one.
async fn rebuild_standby(run: &CheckerRun, random: &mut Random) {
    sleep(random.millis(0..4_000)).await;
    let shift = *random.of(CLOCK_ERRORS);
    let standby = Server::standby_of(run.world.primary(), shift).await;
    run.world.place_server(run.world.pair().1, standby);
    run.log_event(format!("a new standby, its clock wrong by {shift} s"));
}

/// Replaces the last replica.
pub(super) async fn new_replica(run: &CheckerRun, random: &mut Random) {
    run.world.kill_replica(REPLACED);
    sleep(random.millis(0..2_000)).await;
    start_replica(run, REPLACED).await;
}

/// Starts a replica. It is in use once it is ready, as behind a load balancer.
pub(in super::super) async fn start_replica(run: &CheckerRun, slot: usize) {
    let replica = run.world.start_replica(slot).await;
    run.log_event(format!("replica {} is started in slot {slot}", replica.number));
    let begun = Instant::now();
    let ready = eventually(2 * READY_WITHIN, "the replica is ready", || async {
        replica.process.replica.ops("/readyz").await.status == 200
    });
    if timeout(READY_WITHIN, ready).await.is_err() {
        let times = (begun, Instant::now());
        if !run.history.borrow().is_blocked(slot, times, Duration::ZERO) {
            let number = replica.number;
            run.log_unexpected("a new replica is not ready", format!("replica {number}"));
        }
    }
    use_replica(run, &replica);
}

fn use_replica(run: &CheckerRun, replica: &Rc<RunningReplica>) {
    run.log_event(format!("replica {} is in use", replica.number));
    run.world.slots[replica.slot].running.replace(Some(Rc::clone(replica)));
}

/// Replaces the last replica while the primary is down: it must read the standby, which has
/// everything.
pub(super) async fn new_replica_without_primary(run: &CheckerRun, random: &mut Random) {
    run.world.kill_replica(REPLACED);
    let writes = run.world.writes.write().await;
    let (_, standby) = run.world.pair();
    let standby = run.world.server(standby).unwrap();
    run.world.primary().postgres.wait_for_replay(&standby.postgres).await;
    let lost = kill_primary(run).await;
    let replica = run.world.start_replica(REPLACED).await;
    run.log_event(format!("replica {} is started without a primary", replica.number));
    let started = Instant::now();
    let client = reqwest::Client::new();
    // No other request has this limit, so no cache has the response.
    let path = format!("/genes?domain={STEADY_DOMAIN}&limit={}", 10 + replica.number % 40);
    let mut last = String::new();
    while started.elapsed() < STANDBY_USED_WITHIN {
        match run.get(&client, &replica, &path, &run.key).await {
            Ok(response) if response.status == 200 => {
                last.clear();
                break;
            }
            other => last = format!("{other:?}"),
        }
        sleep(random.millis(100..200)).await;
    }
    let times = (started, Instant::now());
    let is_excused = {
        let history = run.history.borrow();
        [&history.unreachable[REPLACED], &history.without_redis[REPLACED], &history.tables_locked]
            .iter()
            .any(|periods| periods.overlaps(times.0, times.1))
    };
    if !last.is_empty() && !is_excused {
        let what = format!("replica {}, {path}: {last}", replica.number);
        run.log_unexpected("a new replica does not read the standby", what);
    }
    promote(run, lost).await;
    use_replica(run, &replica);
    drop(writes);
    rebuild_standby(run, random).await;
}
