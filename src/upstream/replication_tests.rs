//! Tests of the stamps of standby reads, on hand-made positions.

use super::super::history::ServerRun;
use super::super::snapshot::Snapshot;
use super::*;
use crate::registry::Timestamp;

const HISTORY: History =
    History { cluster: Some(1), database: 2, timeline: Some(3), started_at: 4 };

/// A checkpoint at this second, position and snapshot.
fn add(tracker: &mut ReplicationTracker, second: i64, wal: u64, snapshot: &str) {
    let read_at = Timestamp::from_second(second).expect("a time");
    tracker.add(wal, ReadStamp::new(read_at, snapshot.parse().ok()));
}

fn standby(wal: Option<u64>, xmin: u64) -> Position {
    let server = Some(ServerRun { started_at: 5, is_standby: true });
    let (read_at, snapshot) = (Timestamp::UNIX_EPOCH, Snapshot::before(xmin));
    Position { read_at, server, snapshot, history: HISTORY, wal }
}

#[test]
fn reads_of_a_standby_are_stamped_with_the_newest_reached_checkpoint() {
    let mut tracker = ReplicationTracker::default();
    tracker.begin_history(HISTORY);
    add(&mut tracker, 1, 100, "10:10:");
    add(&mut tracker, 2, 200, "12:15:12,13");
    add(&mut tracker, 3, 300, "20:20:");
    for (wal, xmin, second) in [
        (Some(90), 5, None),
        (Some(100), 5, Some(1)),
        (Some(299), 5, Some(2)),
        (Some(300), 5, Some(3)),
        // Its log has come less far, by what nobody needs to see, and it shows everything.
        (Some(299), 20, Some(3)),
        (Some(150), 15, Some(2)),
        (None, 5, None),
    ] {
        let reached = tracker.newest_reached(&standby(wal, xmin));
        let reached = reached.map(|stamp| stamp.read_at.as_second());
        assert_eq!(reached, second, "{wal:?} {xmin}");
    }
    // Its own snapshot says less: it shows what the primary showed then.
    let reached = tracker.newest_reached(&standby(Some(200), 1)).expect("a checkpoint");
    let snapshot = reached.snapshot.as_ref().expect("a snapshot");
    assert!(snapshot.sees(14) && !snapshot.sees(12) && !snapshot.sees(16));
}

#[test]
fn another_history_begins_without_checkpoints_and_their_number_is_bounded() {
    let mut tracker = ReplicationTracker::default();
    for second in 0..2 * MAX_CHECKPOINTS as i64 {
        add(&mut tracker, second, second.unsigned_abs(), "10:10:");
    }
    assert_eq!(tracker.checkpoints.len(), MAX_CHECKPOINTS);
    assert_eq!(tracker.wal(), Some(2 * MAX_CHECKPOINTS as u64 - 1));
    tracker.begin_history(HISTORY);
    assert!(tracker.newest_reached(&standby(Some(u64::MAX), 99)).is_none());
}
