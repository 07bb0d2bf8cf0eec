//! Recognises a change log with the transaction numbers of another cluster.

use crate::registry::Timestamp;

/// The changes with numbers that this cluster has not reached: another one's.
#[derive(Debug, Default)]
pub(super) struct ForeignChanges {
    /// Their number, and the newest of them, as the first poll found them.
    first: Option<(i64, Option<Timestamp>)>,
    is_log_foreign: bool,
}

impl ForeignChanges {
    /// Whether the whole log is another cluster's, as on a logical replica. The first poll may find
    /// such changes in a restored dump; new ones in a later poll prove it. `is_load`: whether the whole
    /// log is loaded, perhaps after another dump.
    pub(super) fn is_log_foreign(
        &mut self,
        count: i64,
        newest: Option<Timestamp>,
        is_load: bool,
    ) -> bool {
        let first = self.first.take_if(|_| !is_load).unwrap_or((count, newest));
        self.first = Some(first);
        if !self.is_log_foreign && (count > first.0 || newest > first.1) {
            self.is_log_foreign = true;
            tracing::warn!(
                "the registry's change log (registry_read.change) has transaction numbers of another \
                 cluster, as on a logical replica: it is ignored, and only ages limit the use of \
                 cached entries"
            );
        }
        self.is_log_foreign
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_changes_that_appear_after_the_first_poll_prove_another_cluster() {
        let at = |second| Timestamp::from_second(second).ok();
        let mut of_standby = ForeignChanges::default();
        // The first poll of a standby, after a restored dump: the log was loaded at the primary.
        assert!(!of_standby.is_log_foreign(3, at(10), false));
        assert!(!of_standby.is_log_foreign(2, at(10), false));
        assert!(!of_standby.is_log_foreign(9, at(20), true), "another dump");
        assert!(of_standby.is_log_foreign(10, at(20), false));
        assert!(of_standby.is_log_foreign(0, None, false));
        let mut newer = ForeignChanges::default();
        assert!(!newer.is_log_foreign(3, at(10), true) && newer.is_log_foreign(3, at(11), false));
    }
}
