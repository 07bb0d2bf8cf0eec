//! Snapshots: the transactions that a read sees.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// A Postgres snapshot, as `pg_current_snapshot()` writes it: `xmin:xmax:xip,…` (see "Transaction
/// ID and Snapshot Information Functions" in the Postgres manual).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// The oldest transaction still running.
    xmin: u64,
    /// One past the newest transaction that had ended.
    xmax: u64,
    /// The transactions between that were still running, ascending.
    running: Box<[u64]>,
}

/// The text is no snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("not a snapshot of the form xmin:xmax:xip,…")]
pub struct InvalidSnapshot;

impl Snapshot {
    /// Whether the changes of the transaction `xid`, if it committed, are visible.
    pub fn sees(&self, xid: u64) -> bool {
        xid < self.xmin || (xid < self.xmax && self.running.binary_search(&xid).is_err())
    }

    /// Whether all that `other` sees is visible, as in every snapshot taken after `other`.
    pub fn sees_all_of(&self, other: &Self) -> bool {
        self.xmax >= other.xmax && !self.running.iter().any(|xid| other.sees(*xid))
    }

    /// The transactions that were running, of those before the newest that had ended, ascending.
    pub fn running(&self) -> &[u64] {
        &self.running
    }

    /// Number of transactions that are visible. It orders the snapshots of one primary, which are a
    /// chain: each sees all that the earlier ones see.
    pub fn transactions(&self) -> u64 {
        self.xmax.saturating_sub(self.running.len() as u64)
    }

    /// The largest number of transactions that may be visible if the list of running ones is incomplete:
    /// all but the oldest running one.
    pub fn max_shown(&self) -> u64 {
        self.xmax - u64::from(self.xmin < self.xmax)
    }

    /// One past the newest transaction that had ended. It never decreases within one timeline.
    pub fn xmax(&self) -> u64 {
        self.xmax
    }

    /// The snapshot that sees all transactions before `next`, none of which is running.
    pub fn before(next: u64) -> Self {
        Self { xmin: next, xmax: next, running: Box::default() }
    }

    /// The reliable part of a standby's snapshot. Its list of running transactions may be incomplete, so
    /// only transactions below the oldest running one count as visible.
    pub fn of_standby(self) -> Self {
        Self::before(self.xmin)
    }
}

impl FromStr for Snapshot {
    type Err = InvalidSnapshot;

    fn from_str(text: &str) -> Result<Self, InvalidSnapshot> {
        let number = |text: &str| text.parse().map_err(|_| InvalidSnapshot);
        let mut parts = text.splitn(3, ':');
        let mut part = || parts.next().ok_or(InvalidSnapshot);
        let (xmin, xmax, list) = (number(part()?)?, number(part()?)?, part()?);
        let mut running = list
            .split(',')
            .filter(|xid| !xid.is_empty())
            .map(number)
            .collect::<Result<Vec<_>, _>>()?;
        running.sort_unstable();
        if xmin > xmax {
            return Err(InvalidSnapshot);
        }
        Ok(Self { xmin, xmax, running: running.into() })
    }
}

impl fmt::Display for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:", self.xmin, self.xmax)?;
        for (index, xid) in self.running.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            write!(f, "{comma}{xid}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn examples_of_visibility() {
        // The example of the Postgres manual.
        let snapshot: Snapshot = "10:20:10,14,15".parse().expect("a snapshot");
        for (xid, seen) in
            [(9, true), (10, false), (11, true), (14, false), (19, true), (20, false)]
        {
            assert_eq!(snapshot.sees(xid), seen, "{xid}");
        }
        for (earlier, all_seen) in
            [("9:9:", true), ("10:20:10,12,14,15", true), ("10:20:10,14", false), ("21:21:", false)]
        {
            let earlier = earlier.parse().expect("a snapshot");
            assert_eq!(snapshot.sees_all_of(&earlier), all_seen, "{earlier}");
        }
        assert_eq!((snapshot.max_shown(), Snapshot::before(20).max_shown()), (19, 20));
        let standby = snapshot.of_standby();
        assert!(standby.sees(9) && !standby.sees(11));
        for wrong in ["", "1", "1:2", "2:1:", "a:2:", "1:2:x", "-1:2:"] {
            assert_eq!(wrong.parse::<Snapshot>(), Err(InvalidSnapshot), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn a_snapshot_that_sees_all_of_another_sees_its_transactions(
            (a, b) in (1..12_u64, 1..12_u64),
            (above_a, above_b) in (
                prop::collection::btree_set(0..8_u64, 0..4),
                prop::collection::btree_set(0..8_u64, 0..4),
            ),
        ) {
            let made = |xmin: u64, above: &std::collections::BTreeSet<u64>| Snapshot {
                xmin,
                xmax: above.last().map_or(xmin, |last| xmin + last + 1),
                running: above.iter().map(|above| xmin + above).collect(),
            };
            let (a, b) = (made(a, &above_a), made(b, &above_b));
            let sees_each = (0..30).all(|xid| !b.sees(xid) || a.sees(xid));
            prop_assert!(!a.sees_all_of(&b) || sees_each);
            // It may be false if the last transactions of `b` were running.
            prop_assert!(a.sees_all_of(&b) || !sees_each || a.xmax < b.xmax);
        }

        #[test]
        fn parsing_restores_what_was_written(
            xmin in 1..1000_u64,
            running in prop::collection::btree_set(1..100_u64, 0..8),
            more in 0..100_u64,
        ) {
            let running: Vec<u64> = running.into_iter().map(|above| xmin + above - 1).collect();
            let xmax = running.last().map_or(xmin, |last| last + 1) + more;
            let list: Vec<String> = running.iter().map(u64::to_string).collect();
            let text = format!("{xmin}:{xmax}:{}", list.join(","));
            let snapshot: Snapshot = text.parse().expect("a snapshot");
            prop_assert_eq!(snapshot.to_string(), text);
            for xid in 0..xmax + 5 {
                let expected = xid < xmax && !(xid >= xmin && running.contains(&xid));
                prop_assert_eq!(snapshot.sees(xid), expected);
            }
        }
    }
}
