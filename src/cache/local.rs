//! Answers in this process: bounded in bytes, with small budgets of their own for what does not
//! exist and for totals, so that junk can't push out good answers.

use std::sync::Arc;
use std::time::Duration;

use moka::ops::compute::Op;
use moka::sync::Cache;

use super::entry::Entry;
use super::total::Total;
use crate::registry::{GeneFilter, GeneId, Request, Timestamp};
use crate::upstream::ReadStamp;

/// Requests for things that do not exist, remembered at most.
const NOT_FOUND: u64 = 10_000;

/// Genes known to have gone, remembered at most.
const GONE: u64 = 10_000;

/// Totals kept at most.
const TOTALS: u64 = 10_000;

/// The nearest cache.
#[derive(Debug)]
pub(super) struct LocalCache {
    entries: Cache<Request, Arc<Entry>>,
    not_found: Cache<Request, Arc<ReadStamp>>,
    tombstones: Cache<GeneId, Timestamp>,
    totals: Cache<GeneFilter, Arc<Total>>,
}

impl LocalCache {
    /// `longest`: how long anything is kept at most; `not_found`: how long it is remembered that
    /// something does not exist; `totals`: how long totals are kept.
    pub(super) fn new(
        max_bytes: u64,
        longest: Duration,
        not_found: Duration,
        totals: Duration,
    ) -> Self {
        let entries = Cache::builder()
            .weigher(|_, entry: &Arc<Entry>| entry.weight())
            .max_capacity(max_bytes)
            .time_to_live(longest)
            .build();
        Self {
            entries,
            not_found: Cache::builder().max_capacity(NOT_FOUND).time_to_live(not_found).build(),
            tombstones: Cache::builder().max_capacity(GONE).time_to_live(longest).build(),
            totals: Cache::builder().max_capacity(TOTALS).time_to_live(totals).build(),
        }
    }

    /// Weight and number of the answers held.
    pub(super) fn held(&self) -> (u64, u64) {
        // It counts behind, and otherwise only while it is used.
        self.entries.run_pending_tasks();
        (self.entries.weighted_size(), self.entries.entry_count())
    }

    pub(super) fn get(&self, request: &Request) -> Option<Arc<Entry>> {
        self.entries.get(request)
    }

    /// When it was last seen that there is no such thing.
    pub(super) fn not_found(&self, request: &Request) -> Option<Arc<ReadStamp>> {
        self.not_found.get(request)
    }

    /// Whether an answer is of a gene that was seen to be gone later than it was read.
    pub(super) fn is_gone(&self, request: &Request, entry: &Entry) -> bool {
        let Request::Phenotype(id) = request else { return false };
        self.tombstones.get(id).is_some_and(|gone_at| entry.seen.read_at <= gone_at)
    }

    /// The time as of which something is remembered of it: an answer, or that there was none.
    pub(super) fn newest(&self, request: &Request) -> Option<Timestamp> {
        let tombstones = match request {
            Request::Phenotype(id) => self.tombstones.get(id),
            Request::Search(_) | Request::Insights(_) => None,
        };
        let held = self.entries.get(request).map(|entry| entry.seen.read_at);
        let absent = self.not_found.get(request).map(|seen| seen.read_at);
        tombstones.max(held).max(absent)
    }

    /// Whether anything is remembered of it: an answer, or that there was none.
    pub(super) fn knows(&self, request: &Request) -> bool {
        let is_gone = match request {
            Request::Phenotype(id) => self.tombstones.contains_key(id),
            Request::Search(_) | Request::Insights(_) => false,
        };
        is_gone || self.entries.contains_key(request) || self.not_found.contains_key(request)
    }

    /// Keeps an answer, unless one that was read later is there. Returns the one that stays.
    pub(super) fn put(&self, request: &Request, entry: &Arc<Entry>) -> Arc<Entry> {
        self.not_found.invalidate(request);
        let done = self.entries.entry_by_ref(request).and_compute_with(|present| match present {
            Some(present) if present.value().seen.read_at > entry.seen.read_at => Op::Nop,
            _ => Op::Put(Arc::clone(entry)),
        });
        done.into_entry().map_or_else(|| Arc::clone(entry), |present| present.into_value())
    }

    /// Remembers that there is nothing; an answer read before that is gone.
    pub(super) fn put_absent(&self, request: &Request, seen: ReadStamp) {
        let read_at = seen.read_at;
        self.entries.entry_by_ref(request).and_compute_with(|present| match present {
            Some(present) if present.value().seen.read_at <= read_at => Op::Remove,
            _ => Op::Nop,
        });
        if let Request::Phenotype(id) = request {
            self.tombstones.insert(*id, read_at);
        }
        self.not_found.insert(request.clone(), Arc::new(seen));
    }

    pub(super) fn total(&self, filter: &GeneFilter) -> Option<Arc<Total>> {
        self.totals.get(filter)
    }

    /// Keeps a total, unless one that was read later is there.
    pub(super) fn put_total(&self, filter: &GeneFilter, total: Total) {
        self.totals.entry_by_ref(filter).and_compute_with(|present| match present {
            Some(present) if present.value().seen.read_at > total.seen.read_at => Op::Nop,
            _ => Op::Put(Arc::new(total)),
        });
    }
}
