//! Faults of the connections of replicas.

use futures_util::future::join_all;
use tokio::time::sleep;

use super::super::history::Periods;
use super::super::run::CheckerRun;
use super::super::world::{SERVERS, SLOTS};
use crate::support::proxy::{Cut, FaultProxy, Mode};
use crate::support::random::Random;

/// One replica, or all.
fn some_slots(random: &mut Random) -> Vec<usize> {
    let slot = random.below(SLOTS + 2);
    if slot < SLOTS { vec![slot] } else { (0..SLOTS).collect() }
}

/// Refuses or stalls the connections for up to four seconds, or cuts them once.
async fn break_connections(proxies: &[&FaultProxy], random: &mut Random) {
    let (kind, time) = (random.below(5), random.millis(100..4_000));
    join_all(proxies.iter().map(|proxy| async move {
        match kind {
            0 | 1 => proxy.set(Mode::Refuse).await,
            2 | 3 => proxy.set(Mode::Stall).await,
            _ => proxy.cut(Cut::Reset).await,
        }
    }))
    .await;
    if kind < 4 {
        sleep(time).await;
        join_all(proxies.iter().map(|proxy| proxy.set(Mode::Pass))).await;
    }
}

/// Breaks the connections of some replicas to all servers, or to the standbys.
pub(super) async fn cut_postgres(run: &CheckerRun, random: &mut Random, with_primary: bool) {
    let slots = some_slots(random);
    run.log_event(format!("Postgres of {slots:?}"));
    // No promotion makes a standby the primary meanwhile.
    let _writes = if with_primary { None } else { Some(run.world.writes.read().await) };
    let (primary, _) = run.world.pair();
    let places = (0..SERVERS).filter(|place| with_primary || *place != primary);
    let places: Vec<usize> = places.collect();
    let proxies = slots
        .iter()
        .flat_map(|slot| places.iter().map(|place| &run.world.slots[*slot].postgres[*place]));
    let each = |change: fn(&mut Periods)| {
        let mut history = run.history.borrow_mut();
        slots.iter().for_each(|slot| change(&mut history.unreachable[*slot]));
    };
    if with_primary {
        each(Periods::begin);
    }
    break_connections(&proxies.collect::<Vec<_>>(), random).await;
    each(Periods::end);
}

/// Breaks the connections of some replicas to Redis.
pub(super) async fn cut_redis(run: &CheckerRun, random: &mut Random) {
    let slots = some_slots(random);
    run.log_event(format!("Redis of {slots:?}"));
    let proxies: Vec<&FaultProxy> =
        slots.iter().map(|slot| &run.world.slots[*slot].redis).collect();
    let each = |change: fn(&mut Periods)| {
        let mut history = run.history.borrow_mut();
        slots.iter().for_each(|slot| change(&mut history.without_redis[*slot]));
    };
    each(Periods::begin);
    break_connections(&proxies, random).await;
    each(Periods::end);
}
