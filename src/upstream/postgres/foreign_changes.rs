//! Recognises a change log with the transaction numbers of another cluster.

use crate::registry::Timestamp;

/// The changes with numbers that this cluster has not reached: another one's.
#[derive(Debug, Default)]
pub(super) struct ForeignChanges {
    count: i64,
    newest: Option<Timestamp>,
    is_log_foreign: bool,
}

impl ForeignChanges {
    /// Whether the whole log is another cluster's, as on a logical replica. The first poll may find
    /// such changes in a restored dump; new ones in a later poll prove it.
    pub(super) fn is_log_foreign(
        &mut self,
        count: i64,
        newest: Option<Timestamp>,
        is_first: bool,
    ) -> bool {
        if self.is_log_foreign {
            return true;
        }
        if is_first {
            (self.count, self.newest) = (count, newest);
        } else if count > self.count || newest > self.newest {
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
