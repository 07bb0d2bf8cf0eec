//! Answers in this process: bounded in bytes, with a small budget of its own for what does not
//! exist, so that junk can't push out good answers.

use std::sync::Arc;
use std::time::Duration;

use moka::sync::Cache;

use super::entry::Entry;
use crate::registry::Request;

/// Requests for things that do not exist, remembered at most.
const NOT_FOUND: u64 = 10_000;

/// The nearest cache.
#[derive(Debug)]
pub(super) struct LocalCache {
    entries: Cache<Request, Arc<Entry>>,
    not_found: Cache<Request, ()>,
}

impl LocalCache {
    pub(super) fn new(max_bytes: u64, longest: Duration, not_found: Duration) -> Self {
        let entries = Cache::builder()
            .weigher(|_, entry: &Arc<Entry>| entry.weight())
            .max_capacity(max_bytes)
            .time_to_live(longest)
            .build();
        let not_found = Cache::builder().max_capacity(NOT_FOUND).time_to_live(not_found).build();
        Self { entries, not_found }
    }

    pub(super) fn get(&self, request: &Request) -> Option<Arc<Entry>> {
        self.entries.get(request)
    }

    pub(super) fn is_not_found(&self, request: &Request) -> bool {
        self.not_found.contains_key(request)
    }

    /// Keeps an answer, unless one that was read later is there.
    pub(super) fn put(&self, request: &Request, entry: &Arc<Entry>) {
        self.not_found.invalidate(request);
        self.entries.entry_by_ref(request).and_compute_with(|present| match present {
            Some(present) if present.value().read_at > entry.read_at => moka::ops::compute::Op::Nop,
            _ => moka::ops::compute::Op::Put(Arc::clone(entry)),
        });
    }

    /// Remembers that there is nothing; an answer from before is gone.
    pub(super) fn put_not_found(&self, request: &Request) {
        self.entries.invalidate(request);
        self.not_found.insert(request.clone(), ());
    }
}
