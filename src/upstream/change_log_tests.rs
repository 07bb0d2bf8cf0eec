//! Tests of the change log, on hand-made sequences and against its definition.

#[path = "change_log_standby_tests.rs"]
mod standby;

use proptest::prelude::*;
use uuid::Uuid;

use super::super::change::{Change, ChangeScope};
use super::super::change_index::{RECENT, SCOPES};
use super::*;
use crate::registry::{DomainName, GeneId, KeyHash, Timestamp};

const PRIMARY: ServerRun = ServerRun { started_at: 1, is_standby: false };
const STANDBY: ServerRun = ServerRun { started_at: 2, is_standby: true };

fn snapshot(text: &str) -> Snapshot {
    text.parse().expect("a snapshot")
}

fn seen(server: ServerRun, text: &str) -> ReadStamp {
    let seen = ReadStamp::new(Timestamp::UNIX_EPOCH, Some(snapshot(text)));
    ReadStamp { server: Some(server), ..seen }
}

/// A log after a first poll of the primary, without changes.
fn loaded() -> ChangeLog {
    let log = ChangeLog::default();
    log.begin_history(1, Some(PRIMARY));
    poll(&log, "10:10:", &[]);
    log
}

fn poll(log: &ChangeLog, text: &str, changes: &[(ChangeScope, u64)]) -> Option<bool> {
    poll_of(log, PRIMARY, text, changes)
}

fn poll_of(
    log: &ChangeLog,
    server: ServerRun,
    text: &str,
    changes: &[(ChangeScope, u64)],
) -> Option<bool> {
    let change =
        |(scope, xid): &(ChangeScope, u64)| Change { scope: scope.clone(), xid: Some(*xid) };
    apply(log, server, text, Changes::These(changes.iter().map(change).collect()))
}

fn apply(log: &ChangeLog, server: ServerRun, text: &str, value: Changes) -> Option<bool> {
    log.apply(Read { value, seen: seen(server, text) }, BootInstant::now(), None).1
}

/// A read with this snapshot that began before every poll that finds something.
fn read(log: &ChangeLog, text: &str) -> ReadStamp {
    ReadStamp { poll: 0, ..log.read_start().stamp(seen(PRIMARY, text)) }
}

#[test]
fn reads_from_before_the_first_change_that_was_loaded_are_outdated() {
    let log = ChangeLog::default();
    log.begin_history(1, Some(PRIMARY));
    let before = read(&log, "10:10:");
    // The database's clock has stepped by more than the horizon since.
    let read_at = Timestamp::from_second(26 * 3_600).expect("a time");
    let loading = ReadStamp { read_at, ..seen(PRIMARY, "12:12:") };
    log.apply(Read { value: Changes::These(Vec::new()), seen: loading }, BootInstant::now(), None);
    assert_eq!(currency(&log, DependsOn::AllGenes, &before), Currency::Outdated);
    let after = ReadStamp { read_at, ..read(&log, "12:12:") };
    assert_eq!(currency(&log, DependsOn::AllGenes, &after), Currency::Confirmed);
    // And back again: this read sees all that the loading one saw.
    let stepped_back = read(&log, "12:12:");
    assert_eq!(currency(&log, DependsOn::AllGenes, &stepped_back), Currency::Confirmed);
}

fn currency(log: &ChangeLog, depends_on: DependsOn<'_>, seen: &ReadStamp) -> Currency {
    // A clone, because a stamp remembers what was found for the one value that it belongs to.
    log.currency(depends_on, &seen.clone(), BootInstant::now())
}

fn is_outdated(log: &ChangeLog, depends_on: DependsOn<'_>, seen: &ReadStamp) -> bool {
    currency(log, depends_on, seen) == Currency::Outdated
}

fn gene(number: u128) -> GeneId {
    Uuid::from_u128(number).into()
}

fn of_gene(number: u128) -> ChangeScope {
    ChangeScope::Gene(gene(number))
}

const KEY: KeyHash = KeyHash([1; 32]);

#[test]
fn before_the_log_is_loaded_no_change_is_known() {
    let log = ChangeLog::default();
    log.begin_history(1, Some(PRIMARY));
    let before = read(&log, "10:10:");
    assert!(!log.is_settled() && log.since().is_none());
    assert!(!is_outdated(&log, DependsOn::Gene(gene(1)), &before));
    assert_eq!(poll(&log, "12:12:", &[(of_gene(1), 11)]), Some(true));
    assert!(log.is_settled() && log.since() == Some(snapshot("12:12:")));
    assert!(is_outdated(&log, DependsOn::Gene(gene(1)), &before));
    assert!(!is_outdated(&log, DependsOn::Gene(gene(2)), &before));
}

#[test]
fn a_change_concerns_its_gene_its_domain_and_the_unfiltered_search() {
    let log = loaded();
    let domain: DomainName = "d".parse().expect("a domain");
    let other: DomainName = "e".parse().expect("a domain");
    let (before, after) = (read(&log, "10:10:"), read(&log, "12:12:"));
    poll(&log, "12:12:", &[(of_gene(1), 11), (ChangeScope::Domain("d".into()), 11)]);
    for concern in [DependsOn::Gene(gene(1)), DependsOn::Domain(&domain), DependsOn::AllGenes] {
        assert!(is_outdated(&log, concern, &before), "{concern:?}");
        assert!(!is_outdated(&log, concern, &after), "{concern:?}");
    }
    for concern in [DependsOn::Gene(gene(2)), DependsOn::Domain(&other), DependsOn::Key(&KEY)] {
        assert!(!is_outdated(&log, concern, &before), "{concern:?}");
    }
}

#[test]
fn changes_of_all_genes_of_all_keys_and_of_everything() {
    for (scope, of_genes, of_keys) in [
        (ChangeScope::Genes, true, false),
        (ChangeScope::Keys, false, true),
        (ChangeScope::Key(KEY), false, true),
        (ChangeScope::All, true, true),
    ] {
        let log = loaded();
        let before = read(&log, "10:10:");
        poll(&log, "12:12:", &[(scope.clone(), 11)]);
        assert_eq!(is_outdated(&log, DependsOn::AllGenes, &before), of_genes, "{scope:?}");
        assert_eq!(is_outdated(&log, DependsOn::Gene(gene(1)), &before), of_genes, "{scope:?}");
        assert_eq!(is_outdated(&log, DependsOn::Key(&KEY), &before), of_keys, "{scope:?}");
    }
}

#[test]
fn changes_that_commit_in_another_order_are_both_detected() {
    let log = loaded();
    // 10 and 11 begin; 11 commits first; a read in between sees 11 and not 10.
    let (between, about) = (read(&log, "10:12:10"), DependsOn::Gene(gene(1)));
    poll(&log, "10:12:10", &[(of_gene(1), 11)]);
    assert!(!is_outdated(&log, about, &between));
    poll(&log, "12:12:", &[(of_gene(1), 10)]);
    assert!(is_outdated(&log, about, &between));
    assert!(!is_outdated(&log, about, &read(&log, "12:12:")));
}

#[test]
fn a_read_is_confirmed_for_two_seconds_by_itself_and_by_each_poll() {
    let log = loaded();
    let about = DependsOn::AllGenes;
    let first = read(&log, "10:10:");
    assert_eq!(currency(&log, about, &first), Currency::Confirmed);
    BootInstant::skip(Duration::from_secs(2));
    assert_eq!(currency(&log, about, &first), Currency::Unconfirmed);
    assert_eq!(currency(&log, about, &read(&log, "10:10:")), Currency::Confirmed);
    poll(&log, "10:10:", &[]);
    assert_eq!(currency(&log, about, &first), Currency::Confirmed);
}

#[test]
fn a_read_of_a_server_that_is_not_polled_is_never_confirmed() {
    let log = loaded();
    let elsewhere = log.read_start().stamp(seen(ServerRun { started_at: 3, ..PRIMARY }, "10:10:"));
    assert_eq!(currency(&log, DependsOn::AllGenes, &elsewhere), Currency::Unconfirmed);
    assert!(!elsewhere.is_publishable_in(1) && read(&log, "10:10:").is_publishable_in(1));
}

#[test]
fn without_a_log_everything_is_confirmed() {
    let log = ChangeLog::default();
    for exists in [Some(false), None] {
        assert_eq!(apply(&log, PRIMARY, "9:9:", Changes::NoLog), exists, "told once");
    }
    let read = read(&log, "1:1:");
    BootInstant::skip(Duration::from_secs(100));
    assert_eq!(currency(&log, DependsOn::AllGenes, &read), Currency::Confirmed);
    assert!(log.is_settled() && !log.exists());
}

#[test]
fn another_history_outdates_every_read() {
    let log = loaded();
    let (before, poll_before) = (read(&log, "30:30:"), log.read_start().poll);
    log.begin_history(2, Some(PRIMARY));
    let after = read(&log, "20:20:");
    assert!(is_outdated(&log, DependsOn::AllGenes, &before));
    assert!(!is_outdated(&log, DependsOn::AllGenes, &after) && !log.is_settled());
    assert!(after.order() > before.order(), "whatever the snapshots");
    assert_eq!(log.read_start().poll, poll_before, "polls are counted on");
    assert!(log.witness().is_none());
    poll(&log, "20:20:", &[(of_gene(1), 19)]);
    assert_eq!(log.witness(), None, "it may have committed before");
    poll(&log, "22:22:", &[(of_gene(1), 21)]);
    assert_eq!(log.witness(), Some(21));
}

#[test]
fn the_primary_of_a_new_history_shows_what_earlier_polls_found_before_the_log_is_loaded() {
    let log = loaded();
    poll(&log, "12:12:", &[(ChangeScope::Key(KEY), 11)]);
    let poll_before = log.read_start().poll;
    log.begin_history(2, Some(STANDBY));
    let of_primary = log.read_start().stamp(seen(STANDBY, "12:12:"));
    assert!(of_primary.shows_poll(poll_before) && of_primary.is_publishable_in(2));
    assert_eq!(currency(&log, DependsOn::Key(&KEY), &of_primary), Currency::Confirmed);
    let of_former_primary = log.read_start().stamp(seen(PRIMARY, "12:12:"));
    assert!(!of_former_primary.shows_poll(poll_before));
    assert_eq!(currency(&log, DependsOn::Key(&KEY), &of_former_primary), Currency::Unconfirmed);
}

#[test]
fn a_load_is_shared_until_a_change_is_known_or_may_have_been_missed() {
    let log = loaded();
    let (load, about) = (log.read_start(), DependsOn::Gene(gene(1)));
    poll(&log, "12:12:", &[(of_gene(2), 11)]);
    assert!(log.may_share(about, &load));
    poll(&log, "13:13:", &[(of_gene(1), 12)]);
    assert!(!log.may_share(about, &load) && log.may_share(about, &log.read_start()));
    let load = log.read_start();
    BootInstant::skip(Duration::from_secs(2));
    assert!(!log.may_share(about, &load));
    poll(&log, "13:13:", &[]);
    assert!(log.may_share(about, &load));
    log.begin_history(2, Some(PRIMARY));
    assert!(!log.may_share(about, &load));
}

#[test]
fn memory_is_bounded_and_dropped_changes_outdate_earlier_reads() {
    let log = loaded();
    let before = read(&log, "10:10:");
    let many: Vec<_> = (0..=SCOPES as u128).map(|number| (of_gene(number), 11)).collect();
    poll(&log, "12:12:", &many);
    assert!(is_outdated(&log, DependsOn::Gene(gene(u128::MAX)), &before));
    assert!(!is_outdated(&log, DependsOn::Gene(gene(0)), &read(&log, "12:12:")));
    let LogIndex::Loaded(index) = &log.read().index else { panic!("loaded") };
    assert_eq!(index.scopes(), 1);
}

#[test]
fn an_open_transaction_does_not_outdate_other_reads() {
    let (log, about) = (loaded(), DependsOn::Gene(gene(1)));
    // 10 stays open; 11 to 40 change one gene; more than are known one by one.
    let many: Vec<_> = (11..=40).map(|xid| (of_gene(1), xid)).collect();
    poll(&log, "10:41:10", &many);
    assert!(is_outdated(&log, about, &read(&log, "10:40:10")));
    assert!(!is_outdated(&log, about, &read(&log, "10:41:10")));
    poll(&log, "43:43:", &[(of_gene(1), 10)]);
    assert!(is_outdated(&log, about, &read(&log, "10:43:10")));
    assert!(!is_outdated(&log, about, &read(&log, "43:43:")));
    // Several transactions at once, while one is open.
    let change = Change { scope: ChangeScope::Genes, xid: None };
    apply(&log, PRIMARY, "43:60:43", Changes::These(vec![change]));
    assert!(is_outdated(&log, about, &read(&log, "43:50:43")));
    assert!(!is_outdated(&log, about, &read(&log, "43:60:43")));
}

#[test]
fn one_transaction_counts_once_however_much_it_changes() {
    let log = loaded();
    // 10 stays open; 11 changes more genes than are known one by one.
    let between = read(&log, "10:12:10");
    let many: Vec<_> = (0..=2 * RECENT as u128).map(|number| (of_gene(number), 11)).collect();
    poll(&log, "10:13:10,12", &many);
    assert!(!is_outdated(&log, DependsOn::AllGenes, &between));
}

proptest! {
    /// Against the definition: outdated exactly when a known change is invisible; where only the
    /// newest changes are known one by one, outdated at least when the definition says so.
    #[test]
    fn no_change_is_ever_missed(
        xids in prop::collection::btree_set(10..60_u64, 0..30),
        xmin in 5..65_u64,
        above in prop::collection::btree_set(0..20_u64, 0..6),
    ) {
        let running: Vec<String> = above.iter().map(|a| (xmin + a).to_string()).collect();
        let xmax = above.last().map_or(xmin, |a| xmin + a + 1);
        let log = loaded();
        let read = read(&log, &format!("{xmin}:{xmax}:{}", running.join(",")));
        for chunk in Vec::from_iter(&xids).chunks(3) {
            let changes: Vec<_> = chunk.iter().map(|xid| (of_gene(1), **xid)).collect();
            poll(&log, "100:100:", &changes);
        }
        let snapshot = read.snapshot.as_ref().expect("a snapshot");
        let by_definition = !xids.iter().all(|xid| snapshot.sees(*xid));
        let found = is_outdated(&log, DependsOn::Gene(gene(1)), &read);
        prop_assert!(found || !by_definition);
        if xids.len() <= RECENT {
            prop_assert_eq!(found, by_definition);
        }
    }
}
