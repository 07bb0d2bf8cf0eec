//! The local cache, bounded in bytes of memory. "Not found" and deleted genes have small budgets of
//! their own, so that requests for things that do not exist cannot evict entries.

use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use moka::ops::compute::{CompResult, Op};
use moka::sync::Cache;

use super::entry::Entry;
use crate::config::CacheConfig;
use crate::registry::{DomainName, GeneSearch, Request};
use crate::upstream::{ReadOrder, ReadStamp};

/// The part of the memory that "not found" and tombstones each may use: one in so many.
const SMALL_BUDGET: u64 = 16;

/// What a cache allocates for an entry: a node of its hash table, nodes of its queues by the time of
/// access and of insertion, and the entry's times and counters.
const CACHE_NODES: usize = 256;

/// The counters of an [`Arc`].
const ARC_COUNTERS: usize = 16;

/// What a [`Bytes`](bytes::Bytes) allocates when it is first cloned.
const BYTES_COUNTER: usize = 24;

/// The size of the local cache.
#[derive(Debug, Clone, Copy)]
pub struct CacheStats {
    /// The memory that it uses, in bytes.
    pub bytes: u64,
    /// The memory that it may use, in bytes.
    pub max_bytes: u64,
    /// Number of entries.
    pub entries: u64,
}

/// The cache of one replica.
#[derive(Debug)]
pub(super) struct LocalCache {
    max_bytes: u64,
    /// Written by [`Self::change`] alone.
    pub(super) entries: Cache<Request, Arc<Entry>>,
    /// The read that found nothing.
    pub(super) not_found: Cache<Request, Arc<ReadStamp>>,
    /// The last read that found nothing, for longer.
    tombstones: Cache<Request, ReadOrder>,
}

impl LocalCache {
    /// Entries and tombstones are kept until the longest of the ages.
    pub(super) fn new(config: &CacheConfig) -> Self {
        let CacheConfig { search, phenotype, insights, local_max_bytes: max_bytes, .. } = *config;
        let longest = search.if_error_s.max(phenotype.if_error_s).max(insights.if_error_s);
        let small = max_bytes / SMALL_BUDGET;
        Self {
            max_bytes,
            entries: cache(max_bytes - 2 * small, longest, |request, entry| {
                request_size(request) + arc_size(entry) + entry_size(entry)
            }),
            not_found: cache(small, config.not_found_s, |request, seen| {
                request_size(request) + arc_size(seen) + stamp_size(seen)
            }),
            tombstones: cache(small, longest, |request, _| request_size(request)),
        }
    }

    pub(super) fn stats(&self) -> CacheStats {
        let Self { entries, not_found, tombstones, .. } = self;
        // The caches update their counts lazily.
        entries.run_pending_tasks();
        not_found.run_pending_tasks();
        tombstones.run_pending_tasks();
        let bytes =
            entries.weighted_size() + not_found.weighted_size() + tombstones.weighted_size();
        CacheStats { bytes, max_bytes: self.max_bytes, entries: entries.entry_count() }
    }

    /// The latest read that is remembered: of an entry, or that found nothing.
    pub(super) fn newest(&self, request: &Request) -> Option<ReadOrder> {
        let entry = self.entries.get(request).map(|entry| entry.seen.order());
        self.absent_at(request).max(entry)
    }

    fn absent_at(&self, request: &Request) -> Option<ReadOrder> {
        self.tombstones.get(request).max(self.not_found.get(request).map(|seen| seen.order()))
    }

    /// Stores an entry, unless a later state is known. Returns the stored entry; `None` if in the later
    /// state there is none.
    pub(super) fn put(&self, request: &Request, entry: &Arc<Entry>) -> Option<Arc<Entry>> {
        self.change(request, entry.seen.order(), || {
            self.not_found.invalidate(request);
            Op::Put(Arc::clone(entry))
        })
    }

    /// Remembers that a read found nothing, and removes the entry. An entry that may show a later state
    /// is kept and returned.
    pub(super) fn put_absent(&self, request: &Request, seen: ReadStamp) -> Option<Arc<Entry>> {
        let order = seen.order();
        self.change(request, order, || {
            self.tombstones.insert(request.clone(), order);
            self.not_found.insert(request.clone(), Arc::new(seen));
            Op::Remove
        })
    }

    /// Changes what is remembered, if a read of this order surely shows at least as much. Returns the
    /// entry that is there then. Changes for one request take turns.
    fn change(
        &self,
        request: &Request,
        order: ReadOrder,
        change: impl FnOnce() -> Op<Arc<Entry>>,
    ) -> Option<Arc<Entry>> {
        let entry = self.entries.entry_by_ref(request).and_compute_with(|present| {
            let present = present.map(|present| present.value().seen.order());
            let mut known = [present, self.absent_at(request)].into_iter().flatten();
            if known.all(|known| order.supersedes(&known)) { change() } else { Op::Nop }
        });
        match entry {
            CompResult::Removed(_) => None,
            entry => entry.into_entry().map(|entry| entry.into_value()),
        }
    }
}

/// A cache of up to `max_bytes` of memory. What a key and its value have allocated, beside their own
/// size, is their `heap_size`, with the overhead of the allocator.
fn cache<K, V>(max_bytes: u64, time_to_live_s: u64, heap_size: fn(&K, &V) -> usize) -> Cache<K, V>
where
    K: Hash + Eq + Send + Sync + 'static,
    V: Clone + Send + Sync + 'static,
{
    let own_size = CACHE_NODES + allocation(ARC_COUNTERS + size_of::<K>()) + size_of::<V>();
    Cache::builder()
        .weigher(move |key, value| {
            (own_size + heap_size(key, value)).try_into().unwrap_or(u32::MAX)
        })
        .max_capacity(max_bytes)
        .time_to_live(Duration::from_secs(time_to_live_s))
        .build()
}

/// The memory of an allocation: an allocator rounds up, by an eighth at most.
const fn allocation(bytes: usize) -> usize {
    bytes + bytes / 8
}

/// The memory of an [`Arc`] without what its value has allocated.
const fn arc_size<T>(_: &Arc<T>) -> usize {
    allocation(ARC_COUNTERS + size_of::<T>())
}

fn request_size(request: &Request) -> usize {
    domain_size(match request {
        Request::Search(GeneSearch { filter, .. }) | Request::Counts(filter) => {
            filter.domain.as_ref()
        }
        Request::Phenotype(_) | Request::Numbers => None,
        Request::Insights(domain) => Some(domain),
    })
}

fn domain_size(domain: Option<&DomainName>) -> usize {
    domain.map_or(0, |domain| allocation(domain.as_str().len()))
}

fn stamp_size(seen: &ReadStamp) -> usize {
    let running = seen.snapshot.as_ref().map_or(0, |snapshot| snapshot.running().len());
    allocation(running * size_of::<u64>())
}

/// The compressed body counts from the start, with the size of the plain one. A body from Redis
/// keeps the rest of the encoded entry in memory: the link and the stamp again.
fn entry_size(entry: &Entry) -> usize {
    let bytes_size = |bytes: &[u8]| match bytes.len() {
        0 => 0,
        length => allocation(length) + BYTES_COUNTER,
    };
    let forms = if entry.is_compressible() { 2 } else { 1 };
    let tags: usize = entry.etags.iter().map(|tag| bytes_size(tag.as_bytes())).sum();
    let (body, link) = (forms * bytes_size(&entry.body), bytes_size(entry.link.as_bytes()));
    body + link + entry.link.len() + 3 * stamp_size(&entry.seen) + tags
}

#[cfg(test)]
#[path = "local_tests.rs"]
mod tests;
