//! What a standby is taken to have seen, by hand.

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

/// A look at the primary, from its beginning to its end.
fn poll(course: &mut ReplicationTracker, found: &Position) {
    course.begin_poll();
    course.add(found);
}

/// The second that it has reached.
fn reached(
    follower: &mut StandbyTracker,
    position: &Position,
    course: &ReplicationTracker,
) -> Option<i64> {
    follower.polled(position, course).map(|seen| seen.read_at.as_second())
}

/// One that was looked at, and found to follow.
fn trusted(course: &ReplicationTracker, position: &Position) -> StandbyTracker {
    let mut follower = StandbyTracker::default();
    assert_eq!(follower.polled(position, course), None, "nothing was compared yet");
    follower
}

#[test]
fn a_standby_has_seen_the_newest_milestone_that_it_has_reached() {
    let mut course = ReplicationTracker::default();
    poll(&mut course, &primary(1, 100, "10:10:", 1));
    poll(&mut course, &primary(2, 200, "12:15:12,13", 1));
    poll(&mut course, &primary(3, 300, "20:20:", 1));
    let mut follower = trusted(&course, &standby(90, 5));
    for (wal, xmin, second) in [
        (90, 5, None),
        (100, 5, Some(1)),
        (299, 5, Some(2)),
        (300, 5, Some(3)),
        // Its log has come less far, by what nobody needs to see, and it shows everything.
        (299, 20, Some(3)),
        (150, 15, Some(2)),
    ] {
        assert_eq!(reached(&mut follower, &standby(wal, xmin), &course), second, "{wal} {xmin}");
    }
    // Whatever it shows beside, it has seen what the primary showed then.
    let seen = follower.polled(&standby(200, 1), &course).expect("it follows");
    let snapshot = seen.snapshot.expect("a snapshot");
    assert!(snapshot.sees(14) && !snapshot.sees(12) && !snapshot.sees(16));
}

#[test]
fn a_standby_that_has_what_the_primary_lost_is_not_read_until_it_goes_on() {
    let mut course = ReplicationTracker::default();
    poll(&mut course, &primary(1, 100, "10:10:", 1));
    let mut follower = trusted(&course, &standby(100, 10));
    assert_eq!(reached(&mut follower, &standby(150, 12), &course), Some(1), "ahead of the look");
    poll(&mut course, &primary(2, 150, "12:12:", 1));
    assert_eq!(reached(&mut follower, &standby(170, 13), &course), Some(2));
    // It was at 170, and the primary later at 160.
    poll(&mut course, &primary(3, 160, "12:12:", 1));
    for second in 4..8 {
        assert_eq!(reached(&mut follower, &standby(170, 13), &course), None);
        poll(&mut course, &primary(second, 100 + 40 * second.unsigned_abs(), "14:14:", 1));
    }
    assert_eq!(reached(&mut follower, &standby(390, 14), &course), Some(7), "it goes on");
}

#[test]
fn a_look_at_the_primary_that_was_on_its_way_proves_no_loss() {
    let mut course = ReplicationTracker::default();
    poll(&mut course, &primary(1, 100, "10:10:", 1));
    let mut follower = trusted(&course, &standby(100, 10));
    // It is at 150 when a look that found the primary at 120 is still on its way.
    course.begin_poll();
    assert_eq!(reached(&mut follower, &standby(150, 12), &course), Some(1));
    course.add(&primary(2, 120, "11:11:", 1));
    assert_eq!(reached(&mut follower, &standby(150, 12), &course), None, "it cannot be told");
    // The primary had got there too, and stands still.
    poll(&mut course, &primary(3, 150, "12:12:", 1));
    assert_eq!(reached(&mut follower, &standby(150, 12), &course), Some(3));
    // Or it had not: what is at 150 is lost.
    course.begin_poll();
    assert_eq!(reached(&mut follower, &standby(170, 13), &course), Some(3));
    course.add(&primary(4, 160, "12:12:", 1));
    for second in 5..8 {
        assert_eq!(reached(&mut follower, &standby(170, 13), &course), None, "{second}");
        poll(&mut course, &primary(second, 160, "12:12:", 1));
    }
    assert_eq!(reached(&mut follower, &standby(170, 13), &course), None);
}

#[test]
fn after_a_promotion_standbys_are_read_once_they_go_on() {
    let mut course = ReplicationTracker::default();
    poll(&mut course, &primary(1, 100, "10:10:", 1));
    let (mut follows, mut stuck, mut promoted) = (
        trusted(&course, &standby(100, 10)),
        trusted(&course, &standby(120, 10)),
        trusted(&course, &standby(100, 10)),
    );
    let new = primary(5, 110, "11:11:", 2);
    assert!(course.is_other_timeline(&new) && !course.is_other_timeline(&standby(1, 1)));
    course.begin_timeline();
    poll(&mut course, &new);
    assert!(!course.is_other_timeline(&new));
    assert_eq!(course.ended(), 1);
    assert_eq!(reached(&mut promoted, &new, &course), Some(5), "the primary itself");
    assert_eq!(reached(&mut follows, &standby(110, 11), &course), None, "not yet");
    assert_eq!(reached(&mut follows, &standby(115, 11), &course), Some(5));
    for _ in 0..3 {
        assert_eq!(reached(&mut stuck, &standby(120, 12), &course), None);
        poll(&mut course, &primary(6, 200, "15:15:", 2));
    }
    // The old primary, which is back on its own.
    let old = primary(7, 500, "50:50:", 1);
    assert_eq!(reached(&mut stuck, &old, &course), None);
}

#[test]
fn while_the_primary_is_away_the_standby_that_is_followed_sets_the_milestones() {
    let mut course = ReplicationTracker::default();
    poll(&mut course, &primary(1, 100, "10:20:10", 1));
    let mut follower = trusted(&course, &standby(100, 10));
    // A transaction that will never end keeps it from showing more by itself.
    course.add_of_standby(&standby(100, 10), at(9));
    let seen = follower.polled(&standby(100, 10), &course).expect("it follows");
    assert_eq!(seen.read_at, at(9));
    assert!(seen.snapshot.expect("a snapshot").sees(15));
    // One that had not come as far shows what it shows.
    let mut course = ReplicationTracker::default();
    poll(&mut course, &primary(1, 100, "20:20:", 1));
    course.add_of_standby(&standby(90, 15), at(9));
    let mut follower = trusted(&course, &standby(90, 15));
    let seen = follower.polled(&standby(90, 15), &course).expect("it follows");
    assert!(seen.read_at == at(9) && !seen.snapshot.expect("a snapshot").sees(15));
    // Another one that is further is not doubted for that.
    assert_eq!(reached(&mut follower, &standby(120, 21), &course), Some(9));
}

#[test]
fn only_so_many_milestones_are_kept() {
    let mut course = ReplicationTracker::default();
    for second in 0..2_000_i64 {
        poll(&mut course, &primary(second, second.unsigned_abs(), "10:10:", 1));
    }
    let mut follower = trusted(&course, &standby(1_500, 5));
    assert_eq!(reached(&mut follower, &standby(1_500, 5), &course), Some(1_500));
    assert_eq!(reached(&mut follower, &standby(1_000, 5), &course), None);
}
