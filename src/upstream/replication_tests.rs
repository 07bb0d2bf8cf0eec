//! Tests of the stamps of standby reads, on hand-made positions.

use super::*;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).expect("a time")
}

fn primary(second: i64, wal: u64, snapshot: &str, timeline: u32) -> Position {
    let snapshot = snapshot.parse().expect("a snapshot");
    let timeline = Some(timeline);
    Position { read_at: at(second), snapshot, is_standby: false, wal, timeline }
}

fn standby(wal: u64, xmin: u64) -> Position {
    let snapshot = Snapshot::before(xmin);
    Position { read_at: at(0), snapshot, is_standby: true, wal, timeline: None }
}

/// A whole poll of the primary.
fn poll(tracker: &mut ReplicationTracker, found: &Position) {
    tracker.begin_poll();
    tracker.add(found);
}

/// The second of the stamp, if the standby may be read.
fn reached(
    follower: &mut StandbyTracker,
    position: &Position,
    tracker: &ReplicationTracker,
) -> Option<i64> {
    follower.polled(position, tracker).map(|seen| seen.read_at.as_second())
}

/// A standby that was polled and found to follow the primary.
fn trusted(tracker: &ReplicationTracker, position: &Position) -> StandbyTracker {
    let mut follower = StandbyTracker::default();
    assert_eq!(follower.polled(position, tracker), None, "nothing was compared yet");
    follower
}

#[test]
fn reads_of_a_standby_are_stamped_with_the_newest_reached_checkpoint() {
    let mut tracker = ReplicationTracker::default();
    poll(&mut tracker, &primary(1, 100, "10:10:", 1));
    poll(&mut tracker, &primary(2, 200, "12:15:12,13", 1));
    poll(&mut tracker, &primary(3, 300, "20:20:", 1));
    let mut follower = trusted(&tracker, &standby(90, 5));
    for (wal, xmin, second) in [
        (90, 5, None),
        (100, 5, Some(1)),
        (299, 5, Some(2)),
        (300, 5, Some(3)),
        // Its log has come less far, by what nobody needs to see, and it shows everything.
        (299, 20, Some(3)),
        (150, 15, Some(2)),
    ] {
        assert_eq!(reached(&mut follower, &standby(wal, xmin), &tracker), second, "{wal} {xmin}");
    }
    // Whatever it shows beside, it has seen what the primary showed then.
    let seen = follower.polled(&standby(200, 1), &tracker).expect("it follows");
    let snapshot = seen.snapshot.expect("a snapshot");
    assert!(snapshot.sees(14) && !snapshot.sees(12) && !snapshot.sees(16));
}

#[test]
fn a_standby_with_data_that_the_primary_lost_is_not_read_until_it_advances() {
    let mut tracker = ReplicationTracker::default();
    poll(&mut tracker, &primary(1, 100, "10:10:", 1));
    let mut follower = trusted(&tracker, &standby(100, 10));
    assert_eq!(reached(&mut follower, &standby(150, 12), &tracker), Some(1), "ahead of the look");
    poll(&mut tracker, &primary(2, 150, "12:12:", 1));
    assert_eq!(reached(&mut follower, &standby(170, 13), &tracker), Some(2));
    // It was at 170, and the primary later at 160.
    poll(&mut tracker, &primary(3, 160, "12:12:", 1));
    for second in 4..8 {
        assert_eq!(reached(&mut follower, &standby(170, 13), &tracker), None);
        poll(&mut tracker, &primary(second, 100 + 40 * second.unsigned_abs(), "14:14:", 1));
    }
    assert_eq!(reached(&mut follower, &standby(390, 14), &tracker), Some(7), "it goes on");
}

#[test]
fn an_overlapping_poll_of_the_primary_proves_no_loss() {
    let mut tracker = ReplicationTracker::default();
    poll(&mut tracker, &primary(1, 100, "10:10:", 1));
    let mut follower = trusted(&tracker, &standby(100, 10));
    // It is at 150 when a look that found the primary at 120 is still on its way.
    tracker.begin_poll();
    assert_eq!(reached(&mut follower, &standby(150, 12), &tracker), Some(1));
    tracker.add(&primary(2, 120, "11:11:", 1));
    assert_eq!(reached(&mut follower, &standby(150, 12), &tracker), None, "it cannot be told");
    // The primary had got there too, and stands still.
    poll(&mut tracker, &primary(3, 150, "12:12:", 1));
    assert_eq!(reached(&mut follower, &standby(150, 12), &tracker), Some(3));
    // Or it had not: what is at 150 is lost.
    tracker.begin_poll();
    assert_eq!(reached(&mut follower, &standby(170, 13), &tracker), Some(3));
    tracker.add(&primary(4, 160, "12:12:", 1));
    for second in 5..8 {
        assert_eq!(reached(&mut follower, &standby(170, 13), &tracker), None, "{second}");
        poll(&mut tracker, &primary(second, 160, "12:12:", 1));
    }
    assert_eq!(reached(&mut follower, &standby(170, 13), &tracker), None);
}

#[test]
fn after_a_promotion_standbys_are_read_once_they_advance() {
    let mut tracker = ReplicationTracker::default();
    poll(&mut tracker, &primary(1, 100, "10:10:", 1));
    let (mut follows, mut stuck, mut promoted) = (
        trusted(&tracker, &standby(100, 10)),
        trusted(&tracker, &standby(120, 10)),
        trusted(&tracker, &standby(100, 10)),
    );
    let new = primary(5, 110, "11:11:", 2);
    assert!(tracker.is_other_timeline(&new) && !tracker.is_other_timeline(&standby(1, 1)));
    tracker.begin_timeline();
    poll(&mut tracker, &new);
    assert!(!tracker.is_other_timeline(&new));
    assert_eq!(tracker.ended(), 1);
    assert_eq!(reached(&mut promoted, &new, &tracker), Some(5), "the primary itself");
    assert_eq!(reached(&mut follows, &standby(110, 11), &tracker), None, "not yet");
    assert_eq!(reached(&mut follows, &standby(115, 11), &tracker), Some(5));
    for _ in 0..3 {
        assert_eq!(reached(&mut stuck, &standby(120, 12), &tracker), None);
        poll(&mut tracker, &primary(6, 200, "15:15:", 2));
    }
    // The old primary, which is back on its own.
    let old = primary(7, 500, "50:50:", 1);
    assert_eq!(reached(&mut stuck, &old, &tracker), None);
}

#[test]
fn while_the_primary_is_unavailable_polls_of_a_standby_are_checkpoints() {
    let mut tracker = ReplicationTracker::default();
    poll(&mut tracker, &primary(1, 100, "10:20:10", 1));
    let mut follower = trusted(&tracker, &standby(100, 10));
    // A transaction that will never end keeps it from showing more by itself.
    tracker.add_of_standby(&standby(100, 10), at(9));
    let seen = follower.polled(&standby(100, 10), &tracker).expect("it follows");
    assert_eq!(seen.read_at, at(9));
    assert!(seen.snapshot.expect("a snapshot").sees(15));
    // One that had not come as far shows what it shows.
    let mut tracker = ReplicationTracker::default();
    poll(&mut tracker, &primary(1, 100, "20:20:", 1));
    tracker.add_of_standby(&standby(90, 15), at(9));
    let mut follower = trusted(&tracker, &standby(90, 15));
    let seen = follower.polled(&standby(90, 15), &tracker).expect("it follows");
    assert!(seen.read_at == at(9) && !seen.snapshot.expect("a snapshot").sees(15));
    // Another one that is further is not doubted for that.
    assert_eq!(reached(&mut follower, &standby(120, 21), &tracker), Some(9));
}

#[test]
fn the_number_of_checkpoints_is_bounded() {
    let mut tracker = ReplicationTracker::default();
    for second in 0..2_000_i64 {
        poll(&mut tracker, &primary(second, second.unsigned_abs(), "10:10:", 1));
    }
    let mut follower = trusted(&tracker, &standby(1_500, 5));
    assert_eq!(reached(&mut follower, &standby(1_500, 5), &tracker), Some(1_500));
    assert_eq!(reached(&mut follower, &standby(1_000, 5), &tracker), None);
}
