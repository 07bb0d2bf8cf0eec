//! Estimates the memory that the local cache needs for a key and its value: their own size, all that
//! they have allocated, and what the cache allocates for them.

use std::sync::Arc;

use bytes::Bytes;

use super::total::Total;
use crate::registry::{DomainName, GeneFilter, GeneId, Request};
use crate::upstream::{ReadOrder, ReadStamp};

/// What the cache allocates for an entry: a node of its hash table, nodes of its queues by the time of
/// access and of insertion, and the entry's times and counters.
const CACHE_NODES: usize = 256;

/// The counters of an [`Arc`].
const ARC_COUNTERS: usize = 16;

/// What a [`Bytes`] allocates when it is first cloned.
const BYTES_COUNTER: usize = 24;

/// What a value has allocated, beside its own size.
pub(super) trait HeapSize {
    /// The size in bytes, with the overhead of the allocator.
    fn heap_size(&self) -> usize;
}

/// The memory that the cache needs for `key` and `value`, in bytes.
pub(super) fn weight<K: HeapSize, V: HeapSize>(key: &K, value: &V) -> u32 {
    let key_size = allocation(ARC_COUNTERS + size_of::<K>()) + key.heap_size();
    let bytes = CACHE_NODES + key_size + size_of::<V>() + value.heap_size();
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

/// The memory of an allocation: an allocator rounds up, by an eighth at most.
const fn allocation(bytes: usize) -> usize {
    bytes + bytes / 8
}

impl<T: HeapSize> HeapSize for Arc<T> {
    fn heap_size(&self) -> usize {
        allocation(ARC_COUNTERS + size_of::<T>()) + T::heap_size(self)
    }
}

impl HeapSize for Bytes {
    fn heap_size(&self) -> usize {
        if self.is_empty() { 0 } else { allocation(self.len()) + BYTES_COUNTER }
    }
}

impl HeapSize for Request {
    fn heap_size(&self) -> usize {
        match self {
            Self::Search(search) => search.filter.heap_size(),
            Self::Phenotype(id) => id.heap_size(),
            Self::Insights(domain) => domain.heap_size(),
        }
    }
}

impl HeapSize for GeneFilter {
    fn heap_size(&self) -> usize {
        self.domain.as_ref().map_or(0, DomainName::heap_size)
    }
}

impl HeapSize for DomainName {
    fn heap_size(&self) -> usize {
        allocation(self.as_str().len())
    }
}

impl HeapSize for GeneId {
    fn heap_size(&self) -> usize {
        0
    }
}

impl HeapSize for ReadOrder {
    fn heap_size(&self) -> usize {
        0
    }
}

impl HeapSize for ReadStamp {
    fn heap_size(&self) -> usize {
        let running = self.snapshot.as_ref().map_or(0, |snapshot| snapshot.running().len());
        allocation(running * size_of::<u64>())
    }
}

impl HeapSize for Total {
    fn heap_size(&self) -> usize {
        self.seen.heap_size()
    }
}
