//! Tests of the change log, on hand-made sequences and against a model.

use proptest::prelude::*;
use uuid::Uuid;

use super::super::change::{Change, ChangeScope};
use super::super::change_index::{RECENT, SCOPES};
use super::*;
use crate::registry::{DomainName, GeneId, KeyHash};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_000_000 + second).expect("a time")
}

fn snapshot(text: &str) -> Snapshot {
    text.parse().expect("a snapshot")
}

fn poll(second: i64, text: &str, changes: &[(ChangeScope, u64)]) -> Read<Changes> {
    let changes = changes.iter().cloned().map(|(scope, xid)| Change { scope, xid }).collect();
    Read { value: Changes::These(changes), seen: ReadStamp::new(at(second), Some(snapshot(text))) }
}

fn seen(second: i64, text: &str) -> ReadStamp {
    ReadStamp::new(at(second), Some(snapshot(text)))
}

fn gene(number: u128) -> GeneId {
    Uuid::from_u128(number).into()
}

#[test]
fn before_the_log_is_loaded_nothing_is_known_to_be_current() {
    let log = ChangeLog::default();
    assert!(!log.is_current(DependsOn::AllGenes, &seen(0, "10:10:")));
    assert!(!log.is_settled());
    assert_eq!(log.polled(poll(1, "12:12:", &[])), Some(true));
    assert!(log.is_settled());
    assert!(log.is_current(DependsOn::AllGenes, &seen(0, "10:10:")));
}

#[test]
fn a_change_since_an_earlier_poll_is_noticed_once_it_is_visible() {
    let log = ChangeLog::default();
    let (first, second) = (snapshot("10:10:"), snapshot("12:12:"));
    let about = DependsOn::Gene(gene(1));
    assert!(!log.has_changed_since(about, &first), "nothing is known yet");
    log.polled(poll(1, "10:10:", &[(ChangeScope::Gene(gene(1)), 9)]));
    assert!(!log.has_changed_since(about, &first), "it was known then");
    log.polled(poll(2, "12:12:", &[(ChangeScope::Gene(gene(1)), 11)]));
    assert!(log.has_changed_since(about, &first));
    assert!(!log.has_changed_since(about, &second));
    assert!(!log.has_changed_since(DependsOn::Gene(gene(2)), &first), "another gene");
    // A standby shows it before its reliable snapshot does.
    log.polled_standby(poll(3, "12:12:", &[(ChangeScope::Gene(gene(3)), 14)]));
    assert!(!log.has_changed_since(DependsOn::Gene(gene(3)), &second));
    log.polled(poll(4, "15:15:", &[]));
    assert!(log.has_changed_since(DependsOn::Gene(gene(3)), &second));
}

#[test]
fn a_change_concerns_its_gene_its_domain_and_the_unfiltered_search() {
    let log = ChangeLog::default();
    let domain: DomainName = "d".parse().expect("a domain");
    let other: DomainName = "e".parse().expect("a domain");
    let (before, after) = (seen(0, "10:10:"), seen(2, "12:12:"));
    let changes = [(ChangeScope::Gene(gene(1)), 11), (ChangeScope::Domain("d".into()), 11)];
    log.polled(poll(3, "12:12:", &changes));
    for concern in [DependsOn::Gene(gene(1)), DependsOn::Domain(&domain), DependsOn::AllGenes] {
        assert!(!log.is_current(concern, &before), "{concern:?}");
        assert!(log.is_current(concern, &after), "{concern:?}");
    }
    for concern in
        [DependsOn::Gene(gene(2)), DependsOn::Domain(&other), DependsOn::Key(&KeyHash([1; 32]))]
    {
        assert!(log.is_current(concern, &before), "{concern:?}");
    }
    log.polled(poll(4, "13:13:", &[(ChangeScope::All, 12)]));
    assert!(!log.is_current(DependsOn::Gene(gene(2)), &after));
    assert!(!log.is_current(DependsOn::Key(&KeyHash([1; 32])), &after));
}

#[test]
fn a_key_concerns_no_search() {
    let log = ChangeLog::default();
    log.polled(poll(3, "12:12:", &[(ChangeScope::Key(KeyHash([1; 32])), 11)]));
    let before = seen(0, "10:10:");
    assert!(!log.is_current(DependsOn::Key(&KeyHash([1; 32])), &before));
    assert!(log.is_current(DependsOn::AllGenes, &before));
}

#[test]
fn changes_that_commit_in_another_order_are_both_detected() {
    let log = ChangeLog::default();
    log.polled(poll(0, "10:10:", &[]));
    // 10 and 11 begin; 11 commits first; a read in between sees 11 and not 10.
    let between = seen(1, "10:12:10");
    log.polled(poll(2, "10:12:10", &[(ChangeScope::Gene(gene(1)), 11)]));
    assert!(log.is_current(DependsOn::Gene(gene(1)), &between));
    log.polled(poll(3, "12:12:", &[(ChangeScope::Gene(gene(1)), 10)]));
    assert!(!log.is_current(DependsOn::Gene(gene(1)), &between));
    assert!(log.is_current(DependsOn::Gene(gene(1)), &seen(4, "12:12:")));
}

#[test]
fn while_the_log_cannot_be_read_only_newer_reads_are_current() {
    let log = ChangeLog::default();
    log.polled(poll(5, "10:10:", &[]));
    let (before, after) = (seen(4, "10:10:"), seen(6, "10:10:"));
    assert!(log.is_current(DependsOn::AllGenes, &before));
    log.poll_failed();
    assert!(!log.is_current(DependsOn::AllGenes, &before));
    assert!(log.is_current(DependsOn::AllGenes, &after));
    log.polled(poll(8, "10:10:", &[]));
    assert!(log.is_current(DependsOn::AllGenes, &before));
}

#[test]
fn reads_beyond_the_horizon_or_of_a_lost_timeline_are_not_current() {
    let log = ChangeLog::default();
    log.polled(poll(0, "100:100:", &[]));
    assert!(!log.is_current(DependsOn::AllGenes, &seen(-25 * 3600 - 1, "90:90:")));
    assert!(log.is_current(DependsOn::AllGenes, &seen(-25 * 3600, "90:90:")));
    // Written by a database that had gone further than this one has.
    assert!(!log.is_current(DependsOn::AllGenes, &seen(-10, "200:200:")));
    // Another replica has just read a newer state.
    assert!(log.is_current(DependsOn::AllGenes, &seen(1, "101:101:")));
    // The database is restored.
    let before = seen(-1, "95:95:");
    assert!(log.is_current(DependsOn::AllGenes, &before));
    log.polled(poll(2, "98:98:", &[]));
    assert!(!log.is_current(DependsOn::AllGenes, &before));
}

#[test]
fn after_a_restore_new_reads_are_current() {
    let log = ChangeLog::default();
    log.polled(poll(0, "100:100:", &[(ChangeScope::All, 99), (ChangeScope::Gene(gene(1)), 98)]));
    log.polled(poll(2, "50:50:", &[]));
    let after = seen(3, "50:50:");
    assert!(log.is_current(DependsOn::AllGenes, &after));
    assert!(log.is_current(DependsOn::Gene(gene(1)), &after));
    log.polled(poll(4, "52:52:", &[(ChangeScope::Gene(gene(1)), 51)]));
    assert!(!log.is_current(DependsOn::Gene(gene(1)), &after));
}

#[test]
fn without_a_log_everything_is_current() {
    let log = ChangeLog::default();
    let no_log = || Read { value: Changes::NoLog, seen: seen(0, "10:10:") };
    assert_eq!(log.polled(no_log()), Some(false));
    assert_eq!(log.polled(no_log()), None);
    assert!(log.is_current(DependsOn::AllGenes, &ReadStamp::new(at(0), None)));
}

#[test]
fn memory_is_bounded_and_dropped_changes_outdate_earlier_reads() {
    let log = ChangeLog::default();
    log.polled(poll(0, "10:10:", &[]));
    let before = seen(0, "10:10:");
    let many: Vec<_> =
        (0..=SCOPES as u128).map(|number| (ChangeScope::Gene(gene(number)), 11)).collect();
    log.polled(poll(1, "12:12:", &many));
    assert!(!log.is_current(DependsOn::Gene(gene(u128::MAX)), &before));
    assert!(log.is_current(DependsOn::Gene(gene(0)), &seen(1, "12:12:")));
    let LogState::ChangeIndex(index) = &*log.read() else { panic!("loaded") };
    assert_eq!(index.scopes(), 0);
}

#[test]
fn an_open_transaction_does_not_outdate_other_reads() {
    let log = ChangeLog::default();
    log.polled(poll(0, "10:10:", &[]));
    // 10 stays open; 11 to 40 change one gene; more than are known one by one.
    let many: Vec<_> = (11..=40).map(|xid| (ChangeScope::Gene(gene(1)), xid)).collect();
    log.polled(poll(2, "10:41:10", &many));
    assert!(!log.is_current(DependsOn::Gene(gene(1)), &seen(1, "10:40:10")));
    assert!(log.is_current(DependsOn::Gene(gene(1)), &seen(3, "10:41:10")));
    assert!(log.is_current(DependsOn::AllGenes, &seen(3, "10:43:10,41")));
    log.polled(poll(4, "43:43:", &[(ChangeScope::Gene(gene(1)), 10)]));
    assert!(!log.is_current(DependsOn::Gene(gene(1)), &seen(3, "10:43:10")));
    assert!(log.is_current(DependsOn::Gene(gene(1)), &seen(5, "43:43:")));
    // Everything is forgotten while one is open.
    log.polled(Read { value: Changes::TooMany, seen: seen(6, "43:60:43") });
    assert!(!log.is_current(DependsOn::AllGenes, &seen(5, "43:50:43")));
    assert!(log.is_current(DependsOn::AllGenes, &seen(7, "43:60:43")));
}

proptest! {
    /// Against the definition: current exactly when every change known is visible; where only
    /// the newest changes are known one by one, never current when the definition says no.
    #[test]
    fn no_change_is_ever_missed(
        xids in prop::collection::vec(10..60_u64, 0..30),
        xmin in 5..65_u64,
        above in prop::collection::btree_set(0..20_u64, 0..6),
    ) {
        let running: Vec<String> = above.iter().map(|a| (xmin + a).to_string()).collect();
        let xmax = above.last().map_or(xmin, |a| xmin + a + 1);
        let read = ReadStamp::new(at(1), Some(snapshot(&format!("{xmin}:{xmax}:{}", running.join(",")))));
        let log = ChangeLog::default();
        log.polled(poll(0, "100:100:", &[]));
        for chunk in xids.chunks(3) {
            let changes: Vec<_> = chunk.iter().map(|xid| (ChangeScope::Gene(gene(1)), *xid)).collect();
            log.polled(poll(0, "100:100:", &changes));
        }
        let snapshot = read.snapshot.as_ref().expect("a snapshot");
        let by_definition = xids.iter().all(|xid| snapshot.sees(*xid));
        let found = log.is_current(DependsOn::Gene(gene(1)), &read);
        prop_assert!(!found || by_definition);
        let distinct: std::collections::BTreeSet<_> = xids.iter().collect();
        if distinct.len() <= RECENT {
            prop_assert_eq!(found, by_definition);
        }
    }
}

#[test]
fn a_poll_of_a_standby_adds_changes_and_removes_none() {
    let log = ChangeLog::default();
    let (one, two) = (DependsOn::Gene(gene(1)), DependsOn::Gene(gene(2)));
    log.polled(poll(0, "20:20:", &[(ChangeScope::Gene(gene(1)), 19)]));
    // It lags: it has not come to the known change, and shows no other.
    log.polled_standby(poll(5, "15:15:", &[]));
    assert_eq!(log.present(), Some(snapshot("20:20:")));
    assert!(!log.is_current(one, &seen(5, "15:15:")) && log.is_current(two, &seen(5, "15:15:")));
    // It goes on, and shows a change above what it has certainly seen all of.
    log.polled_standby(poll(6, "22:22:", &[(ChangeScope::Gene(gene(2)), 25)]));
    assert!(log.is_current(one, &seen(6, "22:22:")) && !log.is_current(two, &seen(6, "22:22:")));
    assert!(log.is_current(two, &seen(7, "26:26:")));
    // The same changes once more, and more than are known one by one.
    for second in 8..12 {
        let many: Vec<_> = (25..40).map(|xid| (ChangeScope::Gene(gene(2)), xid)).collect();
        log.polled_standby(poll(second, "22:22:", &many));
    }
    assert!(!log.is_current(two, &seen(12, "39:39:")) && log.is_current(two, &seen(12, "40:40:")));
    assert!(log.is_current(one, &seen(12, "22:22:")));
}

#[test]
fn a_new_timeline_begins_without_current_reads() {
    let log = ChangeLog::default();
    log.polled(poll(0, "20:20:", &[(ChangeScope::Gene(gene(1)), 19)]));
    assert!(log.is_ahead_of(&poll(5, "19:19:", &[])) && !log.is_ahead_of(&poll(5, "20:20:", &[])));
    log.begin_timeline(at(5));
    assert!(!log.is_settled() && log.present().is_none());
    assert!(!log.is_current(DependsOn::Gene(gene(2)), &seen(6, "30:30:")));
    // It has gone further than the one that has ended: only times tell them apart.
    assert_eq!(log.polled(poll(6, "30:30:", &[(ChangeScope::Gene(gene(1)), 18)])), Some(true));
    for concern in [DependsOn::Gene(gene(1)), DependsOn::Gene(gene(2))] {
        assert!(!log.is_current(concern, &seen(4, "21:21:")));
        assert!(log.is_current(concern, &seen(6, "30:30:")));
    }
    let no_log = ChangeLog::default();
    no_log.polled(Read { value: Changes::NoLog, seen: seen(0, "1:1:") });
    no_log.begin_timeline(at(5));
    assert!(no_log.is_settled(), "without a log ages alone count, before and after");
}
