//! Publishes the result of a read to Redis, and releases the lease in the same round trip. An entry
//! never replaces one that shows a later state.

use std::time::Duration;

use redis::{Value, cmd};

use super::codec::{self, time_text, transactions};
use super::entry::Entry;
use super::lease::{ABSENT, FAILED, Lease, TIMED_OUT};
use super::shared::{SharedCache, milliseconds};
use crate::ops::CacheEvent;
use crate::redis::scripts::{DELETE_IF_OLDER, PUT_IF_NEWER};
use crate::redis::{Call, EntryKeys};
use crate::registry::Request;
use crate::upstream::{ReadStamp, UpstreamError};

/// Time to live of the marker that tells waiting replicas of a result without an entry.
const OUTCOME_TTL: Duration = Duration::from_secs(1);

impl SharedCache {
    /// Publishes an entry for `ttl`.
    pub(super) async fn publish(
        &self,
        lease: Option<Lease>,
        request: &Request,
        entry: &Entry,
        ttl: Duration,
    ) {
        let mut release = lease.as_ref().map(|lease| self.release(lease));
        let is_too_large = entry.body.len() as u64 > self.options.max_entry_bytes;
        if is_too_large {
            self.count(CacheEvent::SharedTooLarge);
        }
        let may_publish =
            |(_, history): &(_, u64)| entry.seen.is_publishable_in(*history) && !is_too_large;
        let Some((EntryKeys { entry: key, .. }, _)) = self.keys(request).filter(may_publish) else {
            self.write(&Vec::from_iter(release)).await;
            return;
        };
        // A script costs Redis a third more than SET, because it copies its arguments.
        if lease.as_ref().is_some_and(|lease| lease.was_vacant) {
            let put = Self::put_if_absent(&key, entry, ttl);
            let replies =
                self.write(&Vec::from_iter([put].into_iter().chain(release.take()))).await;
            let exists_already =
                replies.is_some_and(|replies| replies.first() == Some(&Ok(Value::Nil)));
            if !exists_already {
                return;
            }
        }
        let put = self.put_if_newer(&key, entry, ttl);
        self.write(&Vec::from_iter([put].into_iter().chain(release))).await;
    }

    fn put_if_absent<'a>(key: &'a str, entry: &Entry, ttl: Duration) -> Call<'a> {
        let mut put = cmd("SET");
        put.arg(key).arg(codec::encode(key, entry)).arg("NX").arg("PX").arg(milliseconds(ttl));
        Call::command(key, put)
    }

    fn put_if_newer<'a>(&'a self, key: &'a str, entry: &Entry, ttl: Duration) -> Call<'a> {
        Call::script(&PUT_IF_NEWER, key)
            .arg(codec::encode(key, entry))
            .arg(transactions(&entry.seen))
            .arg(milliseconds(ttl))
            .arg(vec![codec::FORMAT])
    }

    /// Tells waiting replicas that the gene or domain does not exist, and deletes an older entry.
    pub(super) async fn publish_absent(
        &self,
        lease: Option<Lease>,
        request: &Request,
        seen: &ReadStamp,
    ) {
        let may_publish = |(_, history): &(_, u64)| seen.is_publishable_in(*history);
        let Some((keys, _)) = self.keys(request).filter(may_publish) else {
            return self.finish(lease.as_ref(), Vec::new(), None).await;
        };
        let delete = Call::script(&DELETE_IF_OLDER, &keys.entry).arg(transactions(seen));
        let snapshot = seen.snapshot.as_ref().map(ToString::to_string).unwrap_or_default();
        let outcome = format!("{ABSENT} {} {snapshot}", time_text(seen.read_at));
        self.finish(lease.as_ref(), vec![delete], Some(&outcome)).await;
    }

    /// Releases the lease after a read that failed with `error`. If the failure `concerns_all`,
    /// waiting replicas are told; otherwise one of them tries.
    pub(super) async fn publish_failure(
        &self,
        lease: Option<Lease>,
        error: &UpstreamError,
        concerns_all: bool,
    ) {
        let is_timeout = matches!(error, UpstreamError::Timeout);
        let outcome = concerns_all.then_some(if is_timeout { TIMED_OUT } else { FAILED });
        self.finish(lease.as_ref(), Vec::new(), outcome).await;
    }

    async fn finish(&self, lease: Option<&Lease>, mut calls: Vec<Call<'_>>, outcome: Option<&str>) {
        if let (Some(lease), Some(outcome)) = (lease, outcome) {
            let mut marker = cmd("SET");
            marker.arg(&lease.keys.outcome).arg(format!("{} {outcome}", lease.token));
            marker.arg("PX").arg(milliseconds(OUTCOME_TTL));
            calls.push(Call::command(&lease.keys.outcome, marker));
        }
        let release = lease.map(|lease| self.release(lease));
        calls.extend(release);
        self.write(&calls).await;
    }
}
