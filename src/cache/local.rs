//! The local cache, bounded in bytes of memory. "Not found", deleted genes and totals have small
//! budgets of their own, so that requests for things that do not exist cannot evict entries.

use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use moka::ops::compute::Op;
use moka::sync::Cache;

use super::entry::Entry;
use super::total::Total;
use super::weight::{HeapSize, weight};
use crate::registry::{GeneFilter, GeneId, Request};
use crate::upstream::{ReadOrder, ReadStamp};

/// The part of the memory that "not found", tombstones and totals each may use: one in so many.
const SMALL_BUDGET: u64 = 16;

/// The cache of one replica.
#[derive(Debug)]
pub(super) struct LocalCache {
    entries: Cache<Request, Arc<Entry>>,
    not_found: Cache<Request, Arc<ReadStamp>>,
    /// The read that found a gene deleted.
    tombstones: Cache<GeneId, ReadOrder>,
    totals: Cache<GeneFilter, Arc<Total>>,
}

impl LocalCache {
    /// `max_bytes` bounds the memory of everything. `longest` is the time to live of entries and
    /// tombstones, `not_found` that of "not found", and `totals` that of totals.
    pub(super) fn new(
        max_bytes: u64,
        longest: Duration,
        not_found: Duration,
        totals: Duration,
    ) -> Self {
        let small = max_bytes / SMALL_BUDGET;
        Self {
            entries: cache(max_bytes - 3 * small, longest),
            not_found: cache(small, not_found),
            tombstones: cache(small, longest),
            totals: cache(small, totals),
        }
    }

    /// The memory that everything uses, in bytes, and the number of entries.
    pub(super) fn size(&self) -> (u64, u64) {
        let Self { entries, not_found, tombstones, totals } = self;
        let others =
            current_weight(not_found) + current_weight(tombstones) + current_weight(totals);
        (current_weight(entries) + others, entries.entry_count())
    }

    pub(super) fn get(&self, request: &Request) -> Option<Arc<Entry>> {
        self.entries.get(request)
    }

    /// The stamp of the read that found nothing, if that is remembered.
    pub(super) fn not_found(&self, request: &Request) -> Option<Arc<ReadStamp>> {
        self.not_found.get(request)
    }

    /// Whether the gene was found deleted by a read that saw what the entry's saw, or more.
    pub(super) fn is_deleted(&self, request: &Request, entry: &Entry) -> bool {
        self.deleted_at(request).is_some_and(|deleted_at| entry.seen.order() <= deleted_at)
    }

    fn deleted_at(&self, request: &Request) -> Option<ReadOrder> {
        let Request::Phenotype(id) = request else { return None };
        self.tombstones.get(id)
    }

    /// The latest read that is remembered: of an entry, or that found nothing.
    pub(super) fn newest(&self, request: &Request) -> Option<ReadOrder> {
        let entry = self.entries.get(request).map(|entry| entry.seen.order());
        let absent = self.not_found.get(request).map(|seen| seen.order());
        self.deleted_at(request).max(entry).max(absent)
    }

    /// Stores an entry, unless there is one of a later state. Returns the stored entry.
    pub(super) fn put(&self, request: &Request, entry: &Arc<Entry>) -> Arc<Entry> {
        self.not_found.invalidate(request);
        let stored = self.entries.entry_by_ref(request).and_compute_with(|present| match present {
            Some(present) if present.value().seen.order() > entry.seen.order() => Op::Nop,
            _ => Op::Put(Arc::clone(entry)),
        });
        stored.into_entry().map_or_else(|| Arc::clone(entry), |present| present.into_value())
    }

    /// Remembers that a read found nothing, and removes an entry that is not newer.
    pub(super) fn put_absent(&self, request: &Request, seen: ReadStamp) {
        let order = seen.order();
        self.entries.entry_by_ref(request).and_compute_with(|present| match present {
            Some(present) if present.value().seen.order() <= order => Op::Remove,
            _ => Op::Nop,
        });
        if let Request::Phenotype(id) = request {
            self.tombstones.insert(*id, order);
        }
        self.not_found.insert(request.clone(), Arc::new(seen));
    }

    pub(super) fn total(&self, filter: &GeneFilter) -> Option<Arc<Total>> {
        self.totals.get(filter)
    }

    /// Stores a total, unless there is one of a later state.
    pub(super) fn put_total(&self, filter: &GeneFilter, total: Total) {
        self.totals.entry_by_ref(filter).and_compute_with(|present| match present {
            Some(present) if present.value().seen.order() > total.seen.order() => Op::Nop,
            _ => Op::Put(Arc::new(total)),
        });
    }
}

/// A cache of up to `max_bytes` of memory.
fn cache<K, V>(max_bytes: u64, time_to_live: Duration) -> Cache<K, V>
where
    K: HeapSize + Hash + Eq + Send + Sync + 'static,
    V: HeapSize + Clone + Send + Sync + 'static,
{
    Cache::builder().weigher(weight).max_capacity(max_bytes).time_to_live(time_to_live).build()
}

fn current_weight<K, V>(cache: &Cache<K, V>) -> u64
where
    K: Hash + Eq + Send + Sync + 'static,
    V: Clone + Send + Sync + 'static,
{
    // The cache updates its counts lazily.
    cache.run_pending_tasks();
    cache.weighted_size()
}
