//! Tests of changes that polls find at a standby.

use super::*;

/// Applies a poll of a standby that shows up to `shown` transactions.
fn apply_at_standby(log: &ChangeLog, text: &str, shown: u64, value: Changes) {
    let seen = ReadStamp { shown_transactions: shown, ..seen(STANDBY, text) };
    log.apply(Read { value, seen }, BootInstant::now(), None);
}

#[test]
fn a_standby_shows_changes_that_its_reliable_snapshot_does_not_see() {
    let (log, about) = (ChangeLog::default(), DependsOn::Gene(gene(1)));
    log.begin_history(1, Some(PRIMARY));
    // 15 stays open on the primary.
    poll_of(&log, STANDBY, "15:15:", &[]);
    let before = log.read_start().stamp(seen(STANDBY, "15:15:"));
    for _ in 0..3 {
        // Each poll finds the same changes again.
        let change = |xid| Change { scope: of_gene(1), xid: Some(xid) };
        apply_at_standby(&log, "15:15:", 39, Changes::These((16..40).map(change).collect()));
        assert!(is_outdated(&log, about, &before));
    }
    let after = log.read_start().stamp(seen(STANDBY, "15:15:"));
    let again = Change { scope: of_gene(1), xid: Some(16) };
    apply_at_standby(&log, "15:15:", 39, Changes::These(vec![again]));
    assert!(!is_outdated(&log, about, &after) && log.may_share(about, &log.read_start()));
    // Another replica must see them by its snapshot.
    assert!(is_outdated(&log, about, &read(&log, "39:39:")));
    assert!(!is_outdated(&log, about, &read(&log, "40:40:")));
}

#[test]
fn very_many_changes_at_a_standby_outdate_reads_from_before_them() {
    let (log, about) = (ChangeLog::default(), DependsOn::Gene(gene(1)));
    log.begin_history(1, Some(PRIMARY));
    // 15 stays open on the primary.
    poll_of(&log, STANDBY, "15:15:", &[]);
    let before = log.read_start().stamp(seen(STANDBY, "15:15:"));
    let every = Change { scope: ChangeScope::Genes, xid: None };
    apply_at_standby(&log, "15:15:", 6_000, Changes::These(vec![every]));
    assert!(is_outdated(&log, about, &before));
    assert!(!is_outdated(&log, about, &log.read_start().stamp(seen(STANDBY, "15:15:"))));
}

#[test]
fn a_standby_that_lags_removes_no_change() {
    let (log, about) = (loaded(), DependsOn::Gene(gene(1)));
    poll(&log, "20:20:", &[(of_gene(1), 19)]);
    poll_of(&log, STANDBY, "15:15:", &[]);
    assert_eq!(log.since(), Some(snapshot("20:20:")));
    assert!(is_outdated(&log, about, &read(&log, "15:15:")));
    poll_of(&log, STANDBY, "22:22:", &[]);
    assert_eq!(log.since(), Some(snapshot("22:22:")));
}
