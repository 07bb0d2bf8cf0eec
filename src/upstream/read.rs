//! The result of a read, with its stamp.

use std::sync::atomic::AtomicU64;

use super::clock::BootInstant;
use super::history::ServerRun;
use super::snapshot::Snapshot;
use crate::registry::Timestamp;

/// The result of a read.
#[derive(Debug, Clone, PartialEq)]
pub struct Read<T> {
    /// The value.
    pub value: T,
    /// The time of the read, and the state of the database that it saw.
    pub seen: ReadStamp,
}

impl<T> Read<T> {
    /// Another value of the same read.
    pub fn map<U>(self, map: impl FnOnce(T) -> U) -> Read<U> {
        Read { value: map(self.value), seen: self.seen }
    }
}

/// The time of a read, and the state of the database that it saw.
#[derive(Debug)]
pub struct ReadStamp {
    /// The database's time of the read.
    pub read_at: Timestamp,
    /// When the read began; at a standby, when the poll began whose state it surely shows. Of a read by
    /// another replica, as far as the database's clock tells.
    pub began: BootInstant,
    /// When it was sent to its server: of a read by another replica, no moment.
    pub(super) sent_at: BootInstant,
    /// A moment whose changes it surely shows, at whatever server they were committed: of a read by
    /// another replica, none.
    pub(super) not_before: BootInstant,
    /// The last moment whose changes it may show: later than `began` at a standby or another replica.
    pub(super) shown_at: BootInstant,
    /// Its snapshot; `None` if the upstream has none.
    pub snapshot: Option<Snapshot>,
    /// Number of transactions that it may show: more than its snapshot sees at a standby, or if it is
    /// made of two reads.
    pub shown_transactions: u64,
    /// The server that was read; `None` if the upstream has none.
    pub server: Option<ServerRun>,
    /// The moment at which it surely was current by itself, without any poll.
    pub(super) confirmed_at: BootInstant,
    /// The number of the history that it belongs to.
    pub(super) history: u64,
    /// Whether the server is the one that is polled: otherwise no poll confirms the read.
    pub(super) is_polled: bool,
    /// All changes that polls up to this one found are visible to the read; 0 at a standby.
    pub(super) poll: u64,
    /// All that is in the write-ahead log before is visible to the read; 0 at the polled server.
    pub(super) wal: u64,
    /// The version of the change log for which no known change contradicted this.
    pub(super) verified: AtomicU64,
}

/// Orders reads by the state that they saw, and equal states by time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ReadOrder {
    history: u64,
    is_polled: bool,
    transactions: u64,
    began: BootInstant,
    not_before: BootInstant,
    shown_at: BootInstant,
    shown_transactions: u64,
    server: Option<ServerRun>,
    sent_at: BootInstant,
}

impl ReadOrder {
    /// Whether this read surely shows at least what the other one did. Times of other replicas do not
    /// decide, since the database's clock may have stepped.
    pub fn supersedes(&self, other: &Self) -> bool {
        // One server never goes back, but another may lack what this one shows.
        let since = if self.server == other.server { self.sent_at } else { self.not_before };
        let is_later = since >= other.shown_at;
        if self.history != other.history {
            // A server that is not polled may have begun the later history already.
            return self.history > other.history && (other.is_polled || is_later);
        }
        if self.is_polled != other.is_polled {
            // Of two servers, one of which may be a new primary that lacks transactions of the other.
            return is_later;
        }
        let shows_more = self.transactions > other.shown_transactions;
        let shows_same = self.transactions == other.shown_transactions && self.began >= other.began;
        shows_more || shows_same || (is_later && self.transactions >= other.transactions)
    }
}

impl ReadStamp {
    /// The stamp of a read that is made now.
    pub fn new(read_at: Timestamp, snapshot: Option<Snapshot>) -> Self {
        let began = BootInstant::now();
        let shown_transactions = snapshot.as_ref().map_or(0, Snapshot::transactions);
        Self {
            read_at,
            began,
            sent_at: began,
            not_before: began,
            shown_at: began,
            snapshot,
            shown_transactions,
            server: None,
            confirmed_at: began,
            history: 0,
            is_polled: true,
            poll: 0,
            wal: 0,
            verified: AtomicU64::new(0),
        }
    }

    /// The place of this read among others of this replica.
    pub fn order(&self) -> ReadOrder {
        ReadOrder {
            history: self.history,
            is_polled: self.is_polled,
            transactions: self.transactions(),
            began: self.began,
            not_before: self.not_before,
            shown_at: self.shown_at,
            shown_transactions: self.shown_transactions,
            server: self.server,
            sent_at: self.sent_at,
        }
    }

    /// Number of transactions that the read sees. Within one history it never decreases.
    pub fn transactions(&self) -> u64 {
        self.snapshot.as_ref().map_or(0, Snapshot::transactions)
    }

    /// Whether the read surely shows all changes that the poll with this number found.
    pub const fn shows_poll(&self, poll: u64) -> bool {
        poll <= self.poll
    }

    /// Whether other replicas may use the result in the history with this number. Reads of a server
    /// that is not polled are this replica's alone.
    pub const fn is_publishable_in(&self, history: u64) -> bool {
        self.is_polled && self.history == history
    }

    /// The stamp of a result that is made of both reads: that of the earlier one, but for what it may
    /// show. `None` if the reads are not comparable.
    pub fn combined(&self, other: &Self) -> Option<Self> {
        let is_comparable = self.history == other.history && self.is_polled == other.is_polled;
        let earlier = if other.order() < self.order() { other } else { self };
        let not_before = self.not_before.min(other.not_before);
        let is_same_server = self.server == other.server;
        is_comparable.then(|| Self {
            server: self.server.filter(|_| is_same_server),
            sent_at: if is_same_server { self.sent_at.min(other.sent_at) } else { not_before },
            not_before,
            shown_at: self.shown_at.max(other.shown_at),
            shown_transactions: self.shown_transactions.max(other.shown_transactions),
            ..earlier.clone()
        })
    }
}

impl Clone for ReadStamp {
    fn clone(&self) -> Self {
        let (snapshot, verified) = (self.snapshot.clone(), AtomicU64::new(0));
        Self { snapshot, verified, ..*self }
    }
}

impl PartialEq for ReadStamp {
    fn eq(&self, other: &Self) -> bool {
        self.read_at == other.read_at && self.snapshot == other.snapshot
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(transactions: u64, began: i64, shown_at: i64) -> ReadOrder {
        let [began, shown_at] = [began, shown_at].map(BootInstant::from_micros);
        ReadOrder {
            history: 1,
            is_polled: true,
            transactions,
            began,
            not_before: began,
            shown_at,
            shown_transactions: transactions,
            server: None,
            sent_at: began,
        }
    }

    fn of_other_replica(order: ReadOrder) -> ReadOrder {
        ReadOrder { not_before: BootInstant::MIN, sent_at: BootInstant::MIN, ..order }
    }

    #[test]
    fn a_later_state_or_the_same_state_at_a_later_time_supersedes() {
        let present = order(10, 100, 100);
        assert!(order(11, 90, 90).supersedes(&present), "snapshots decide, not times");
        assert!(order(10, 100, 100).supersedes(&present));
        assert!(!order(10, 99, 99).supersedes(&present));
        assert!(!order(9, 200, 200).supersedes(&present));
        let other_history = ReadOrder { history: 2, ..order(1, 1, 1) };
        assert!(other_history.supersedes(&present) && !present.supersedes(&other_history));
    }

    #[test]
    fn a_read_from_a_server_that_is_not_polled_supersedes_by_time_alone() {
        let of_new_primary = ReadOrder { is_polled: false, ..order(8, 150, 150) };
        let of_lost_state = order(10, 100, 100);
        assert!(of_new_primary.supersedes(&of_lost_state));
        assert!(!of_lost_state.supersedes(&of_new_primary));
        assert!(order(7, 160, 160).supersedes(&of_new_primary), "of the polled server, later");
        let in_its_history = |order| ReadOrder { history: 2, ..order };
        let of_other_replica = of_other_replica(order(7, 140, 170));
        assert!(!in_its_history(of_other_replica).supersedes(&of_new_primary), "perhaps earlier");
        assert!(in_its_history(order(8, 160, 160)).supersedes(&of_new_primary));
    }

    #[test]
    fn what_two_reads_show_is_superseded_only_by_what_shows_both() {
        let two = ReadOrder { shown_transactions: 12, ..order(10, 100, 120) };
        assert!(!order(11, 110, 110).supersedes(&two), "between the two");
        assert!(order(12, 110, 110).supersedes(&two));
        assert!(order(12, 120, 120).supersedes(&two));
        // From Redis, which does not tell when it was shown.
        let shown_at = BootInstant::from_micros(1_000);
        let shared = of_other_replica(ReadOrder { shown_at, ..two });
        assert!(!order(11, 110, 110).supersedes(&shared));
        assert!(order(12, 110, 110).supersedes(&shared));
    }

    #[test]
    fn what_a_standby_shows_is_superseded_by_reads_that_began_after_it_or_show_as_much() {
        let standby = ReadOrder { shown_transactions: 13, ..order(10, 100, 150) };
        assert!(!order(12, 120, 120).supersedes(&standby), "it may show the thirteenth");
        assert!(order(14, 120, 120).supersedes(&standby));
        assert!(order(12, 150, 150).supersedes(&standby));
        assert!(!order(12, 140, 190).supersedes(&standby), "another standby");
        assert!(order(12, 150, 190).supersedes(&standby));
    }

    #[test]
    fn a_standby_never_goes_back_whatever_is_known_of_the_primary() {
        let run = |started_at| Some(ServerRun { started_at, is_standby: true });
        // 40 transactions were running when the primary died, and no poll of it shows more.
        let read = |sent_at, shown_at| ReadOrder {
            not_before: BootInstant::MIN,
            shown_transactions: 99,
            server: run(1),
            sent_at: BootInstant::from_micros(sent_at),
            ..order(56, 50, shown_at)
        };
        let first = read(100, 110);
        assert!(read(120, 130).supersedes(&first), "sent after the other had been read");
        assert!(!read(105, 115).supersedes(&first), "perhaps before");
        assert!(!ReadOrder { server: run(2), ..read(120, 130) }.supersedes(&first), "another one");
    }

    #[test]
    fn two_reads_of_different_servers_are_of_none() {
        let server = |started_at| Some(ServerRun { started_at, is_standby: true });
        let read = |server| ReadStamp { server, ..ReadStamp::new(Timestamp::UNIX_EPOCH, None) };
        let (first, second) = (read(server(1)), read(server(2)));
        assert_eq!(first.combined(&read(server(1))).expect("comparable").server, server(1));
        let both = first.combined(&second).expect("comparable");
        assert_eq!((both.server, both.sent_at), (None, first.not_before));
    }

    #[test]
    fn what_another_replica_read_is_ordered_by_transactions_alone() {
        let of_other = |transactions, began| {
            let read = order(transactions, began, 1_000);
            of_other_replica(read)
        };
        let standby = ReadOrder { shown_transactions: 13, ..order(10, 100, 150) };
        assert!(!of_other(12, 200).supersedes(&standby), "its time may be wrong");
        assert!(of_other(14, 50).supersedes(&standby));
        assert!(of_other(10, 200).supersedes(&order(10, 100, 100)), "the same state, younger");
        assert!(!order(9, 900, 900).supersedes(&of_other(10, 200)));
        assert!(order(10, 900, 900).supersedes(&of_other(10, 200)));
    }
}
