//! Steps of clocks, both ways, by seconds and by hours.

use tokio::time::{Instant, sleep};

use super::super::run::CheckerRun;
use super::super::world::SLOTS;
use crate::support::random::Random;

/// In seconds.
const STEPS: &[i64] = &[2, 5, 60, 7_200, 90_000];

fn step(random: &mut Random) -> i64 {
    let size = *random.of(STEPS);
    if random.below(2) == 0 { size } else { -size }
}

/// Steps the clock of the primary, half of the time with that of its standby, and back after up to
/// ten seconds.
pub(super) async fn database(run: &CheckerRun, random: &mut Random) {
    let (primary, standby) = run.world.pair();
    let with_standby = random.below(2) == 0;
    let places = if with_standby { vec![primary, standby] } else { vec![primary] };
    let servers: Vec<_> = places.iter().filter_map(|place| run.world.server(*place)).collect();
    let step = step(random);
    run.log_event(format!(
        "the database's clock steps by {step} s, with the standby: {with_standby}"
    ));
    for change in [step, -step] {
        for server in &servers {
            server.clock.set_ahead(server.clock.ahead() + change);
        }
        run.history.borrow_mut().database_steps.push((Instant::now(), change));
        if change == step {
            sleep(random.millis(1_000..10_000)).await;
        }
    }
}

/// Steps the clock of one replica, and back after up to ten seconds.
pub(super) async fn replica(run: &CheckerRun, random: &mut Random) {
    let (slot, step) = (random.below(SLOTS), step(random));
    run.log_event(format!("the clock of replica slot {slot} steps by {step} s"));
    let clock = &run.world.slots[slot].clock;
    clock.set_ahead(step);
    sleep(random.millis(1_000..10_000)).await;
    clock.set_ahead(0);
}
