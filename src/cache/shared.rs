//! Answers that all replicas share, in Redis, and the leases that make one replica read for
//! all. Trouble with Redis is a miss, a write that is skipped or a lease that is not there; it
//! never fails a request.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use redis::{RedisResult, Value, cmd};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};

use super::codec::{self, sortable};
use super::entry::Entry;
use super::key::CanonicalText;
use crate::ops::{CacheEvent, Metrics};
use crate::redis::{
    AccessMode, AnswerKeys, CacheScripts, Call, RedisFailure, RedisKeys, RedisPool,
};
use crate::registry::Request;
use crate::upstream::ReadStamp;

/// Between two looks of those who wait for another replica.
const LEASE_POLL_INTERVAL: Duration = Duration::from_millis(25);

/// How long those who wait can hear that nothing came of a lease.
const OUTCOME_LIVES: Duration = Duration::from_secs(1);

const FAILED: &str = "failed";
const ABSENT: &str = "absent";

/// The cache behind the local one. Cheap to clone.
#[derive(Debug, Clone)]
pub struct SharedCache(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    pool: RedisPool,
    keys: RedisKeys,
    scripts: CacheScripts,
    schema: String,
    max_entry_bytes: usize,
    lease_lives: Duration,
    metrics: Arc<Metrics>,
}

/// A lease: the right to read an answer for the whole fleet.
#[derive(Debug)]
pub(super) struct Lease {
    keys: AnswerKeys,
    token: String,
    /// There was no answer when it was taken.
    is_vacant: bool,
}

/// Who reads.
#[derive(Debug)]
pub(super) enum LeaseAttempt {
    /// We do.
    Ours {
        /// To be given back.
        lease: Lease,
        /// Whether Redis has another answer by now than the one that was known.
        has_news: bool,
    },
    /// Another replica does, with this token.
    Theirs(String),
    /// Nobody can tell: everybody for himself.
    NoLeases,
}

/// What came of waiting for another replica.
#[derive(Debug)]
pub(super) enum Waited {
    /// Its answer.
    Entry(Entry),
    /// It found that there is no such thing, in this read.
    Absent(ReadStamp),
    /// It tried in vain.
    Failed,
    /// It went away without a word.
    LeaseEnded,
    /// It takes too long, or Redis went away.
    GaveUp,
}

impl SharedCache {
    /// `schema` is a fingerprint of the response schema; answers larger than `max_entry_bytes`
    /// are not shared; a lease lives for `lease_lives`, the longest that one try of a read may
    /// take.
    pub fn new(
        pool: RedisPool,
        keys: RedisKeys,
        schema: String,
        max_entry_bytes: u64,
        lease_lives: Duration,
        metrics: Arc<Metrics>,
    ) -> Self {
        let max_entry_bytes = usize::try_from(max_entry_bytes).unwrap_or(usize::MAX);
        let scripts = CacheScripts::default();
        Self(Arc::new(Inner { pool, keys, scripts, schema, max_entry_bytes, lease_lives, metrics }))
    }

    pub(super) async fn get(&self, request: &Request) -> Option<Entry> {
        let key = self.keys(request).answer;
        let mut command = cmd("GET");
        command.arg(&key);
        match self.0.pool.send(AccessMode::Read, &key, command).await {
            Ok(value) => self.decoded(&key, request, value).await,
            Err(error) => {
                // A list or the like: the next answer takes its place.
                if matches!(&error, RedisFailure::Failed(error) if error.code() == Some("WRONGTYPE"))
                {
                    self.0.metrics.count(CacheEvent::SharedUndecodable);
                }
                tracing::debug!(%error, "an answer was not read from redis");
                None
            }
        }
    }

    /// What can't be decoded is a miss; it is counted, and taken away.
    async fn decoded(&self, key: &str, request: &Request, value: Value) -> Option<Entry> {
        let Value::BulkString(bytes) = value else { return None };
        let bytes = Bytes::from(bytes);
        match codec::decode(key, request, &bytes) {
            Ok(entry) => Some(entry),
            Err(error) => {
                self.0.metrics.count(CacheEvent::SharedUndecodable);
                tracing::debug!(%error, "an answer in redis could not be decoded");
                let discard = Call::script(&self.0.scripts.delete_if_equal, key).arg(&bytes[..]);
                self.run(&[discard]).await;
                None
            }
        }
    }

    /// Asks for the right to read `request` for all. Tells whoever gets it whether there is another
    /// answer than the one that is `known`: the holder before may have just published.
    pub(super) async fn acquire_lease(
        &self,
        request: &Request,
        known: Option<&Entry>,
    ) -> LeaseAttempt {
        let (keys, token) = (self.keys(request), token());
        let claim = Call::script(&self.0.scripts.acquire_lease, &keys.lease)
            .arg(token.as_bytes())
            .arg(milliseconds(self.0.lease_lives));
        let mut read_at = cmd("GETRANGE");
        read_at.arg(&keys.answer).arg(codec::READ_AT.start).arg(codec::READ_AT.end - 1);
        let calls = [claim, Call::command(&keys.answer, read_at)];
        let Ok(replies) = self.0.pool.run(AccessMode::Write, &calls).await else {
            return LeaseAttempt::NoLeases;
        };
        let Ok([Ok(Value::BulkString(holder)), read_at]) = <[_; 2]>::try_from(replies) else {
            return LeaseAttempt::NoLeases;
        };
        if holder != token.as_bytes() {
            return LeaseAttempt::Theirs(String::from_utf8_lossy(&holder).into_owned());
        }
        let known = known.map(|entry| sortable(entry.seen.read_at)).unwrap_or_default();
        // An error where there is something that is no answer.
        let has_news = read_at.as_ref().is_ok_and(|read_at| text(read_at) != known);
        let is_vacant = read_at.is_ok_and(|read_at| read_at == Value::BulkString(Vec::new()));
        LeaseAttempt::Ours { lease: Lease { keys, token, is_vacant }, has_news }
    }

    /// Gives a lease back that was not needed.
    pub(super) async fn release_lease(&self, lease: &Lease) {
        self.run(&[self.release(lease)]).await;
    }

    /// Keeps the answer for `lifetime`, unless one that was read later is there; gives the lease
    /// back.
    pub(super) async fn publish(
        &self,
        lease: Option<Lease>,
        request: &Request,
        entry: &Entry,
        lifetime: Duration,
    ) {
        let mut release = lease.as_ref().map(|lease| self.release(lease));
        if entry.body.len() > self.0.max_entry_bytes {
            self.0.metrics.count(CacheEvent::SharedTooLarge);
            self.run(&Vec::from_iter(release)).await;
            return;
        }
        let key = self.keys(request).answer;
        // A script costs Redis a third more, for it copies what it is handed.
        if lease.as_ref().is_some_and(|lease| lease.is_vacant) {
            let put = self.put(&key, entry, lifetime);
            let replies = self.run(&Vec::from_iter([put].into_iter().chain(release.take()))).await;
            let has_company =
                replies.is_some_and(|replies| replies.first() == Some(&Ok(Value::Nil)));
            // It may have been read earlier.
            if !has_company {
                return;
            }
        }
        let keep = self.keep(&key, entry, lifetime);
        self.run(&Vec::from_iter([keep].into_iter().chain(release))).await;
    }

    /// Keeps an answer where there is none.
    fn put<'a>(&self, key: &'a str, entry: &Entry, lifetime: Duration) -> Call<'a> {
        let mut put = cmd("SET");
        put.arg(key).arg(codec::encode(key, entry)).arg("NX").arg("PX").arg(milliseconds(lifetime));
        Call::command(key, put)
    }

    /// Keeps an answer, unless one that was read later is there.
    fn keep<'a>(&'a self, key: &'a str, entry: &Entry, lifetime: Duration) -> Call<'a> {
        Call::script(&self.0.scripts.put_if_newer, key)
            .arg(codec::encode(key, entry))
            .arg(sortable(entry.seen.read_at))
            .arg(milliseconds(lifetime))
            .arg(vec![codec::FORMAT])
    }

    /// Tells those who wait that there is no such thing, takes away an answer from before, and
    /// gives the lease back.
    pub(super) async fn publish_absent(
        &self,
        lease: Option<Lease>,
        request: &Request,
        seen: &ReadStamp,
    ) {
        let (keys, read_at) = (self.keys(request), sortable(seen.read_at));
        let retire =
            Call::script(&self.0.scripts.delete_if_older, &keys.answer).arg(read_at.as_str());
        let snapshot = seen.snapshot.as_ref().map(ToString::to_string).unwrap_or_default();
        let outcome = format!("{ABSENT} {read_at} {snapshot}");
        self.end(lease.as_ref(), vec![retire], Some(&outcome)).await;
    }

    /// Gives the lease back. Where the failure `speaks_for_all`, those who wait are told;
    /// else the next of them tries.
    pub(super) async fn publish_failure(&self, lease: Option<Lease>, speaks_for_all: bool) {
        let outcome = speaks_for_all.then_some(FAILED);
        self.end(lease.as_ref(), Vec::new(), outcome).await;
    }

    async fn end(&self, lease: Option<&Lease>, mut calls: Vec<Call<'_>>, outcome: Option<&str>) {
        if let (Some(lease), Some(outcome)) = (lease, outcome) {
            let mut marker = cmd("SET");
            marker.arg(&lease.keys.outcome).arg(format!("{} {outcome}", lease.token));
            marker.arg("PX").arg(OUTCOME_LIVES.as_millis() as u64);
            calls.push(Call::command(&lease.keys.outcome, marker));
        }
        let release = lease.map(|lease| self.release(lease));
        calls.extend(release);
        self.run(&calls).await;
    }

    fn release<'a>(&'a self, lease: &'a Lease) -> Call<'a> {
        Call::script(&self.0.scripts.release_lease, &lease.keys.lease).arg(lease.token.as_bytes())
    }

    /// What was said to each, where Redis answered.
    async fn run(&self, calls: &[Call<'_>]) -> Option<Vec<RedisResult<Value>>> {
        if calls.is_empty() || self.0.pool.is_unavailable(AccessMode::Write) {
            return None;
        }
        match self.0.pool.run(AccessMode::Write, calls).await {
            Ok(replies) => {
                replies.iter().filter_map(|reply| reply.as_ref().err()).for_each(|error| {
                    self.0.metrics.count(CacheEvent::SharedWriteFailed);
                    tracing::debug!(%error, "redis refused a write");
                });
                Some(replies)
            }
            Err(error) => {
                self.0.metrics.count(CacheEvent::SharedWriteFailed);
                tracing::debug!(%error, "something was not written to redis");
                None
            }
        }
    }

    /// Waits until `deadline` for what the replica with the lease `token` finds. `accept` says
    /// whether an answer is good enough.
    pub(super) async fn wait(
        &self,
        request: &Request,
        token: &str,
        deadline: Instant,
        accept: impl Fn(&Entry) -> bool,
    ) -> Waited {
        let keys = self.keys(request);
        let mut looks = interval(LEASE_POLL_INTERVAL);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        looks.tick().await;
        loop {
            tokio::select! {
                _ = looks.tick() => {}
                () = sleep_until(deadline) => return Waited::GaveUp,
            }
            let mut look = cmd("MGET");
            look.arg(&keys.answer).arg(&keys.outcome).arg(&keys.lease);
            let Ok(Value::Array(found)) =
                self.0.pool.send(AccessMode::Read, &keys.answer, look).await
            else {
                return Waited::GaveUp;
            };
            let Ok([answer, outcome, holder]) = <[Value; 3]>::try_from(found) else {
                return Waited::GaveUp;
            };
            if let Some(entry) = self.decoded(&keys.answer, request, answer).await.filter(&accept) {
                return Waited::Entry(entry);
            }
            if let Some(outcome) = text(&outcome).strip_prefix(token).and_then(ended) {
                return outcome;
            }
            if text(&holder) != token {
                return Waited::LeaseEnded;
            }
        }
    }

    fn keys(&self, request: &Request) -> AnswerKeys {
        self.0.keys.answer(codec::FORMAT, &self.0.schema, CanonicalText(request))
    }
}

/// What an outcome marker says, after the lease's token.
fn ended(outcome: &str) -> Option<Waited> {
    let mut words = outcome.trim_start().splitn(3, ' ');
    match (words.next()?, words.next(), words.next()) {
        (FAILED, None, None) => Some(Waited::Failed),
        (ABSENT, Some(read_at), Some(snapshot)) => {
            let snapshot = Some(snapshot).filter(|text| !text.is_empty());
            let snapshot = snapshot.map(str::parse).transpose().ok()?;
            Some(Waited::Absent(ReadStamp::new(codec::time(read_at.as_bytes())?, snapshot)))
        }
        _ => None,
    }
}

fn text(value: &Value) -> &str {
    match value {
        Value::BulkString(bytes) => std::str::from_utf8(bytes).unwrap_or_default(),
        _ => "",
    }
}

fn milliseconds(duration: Duration) -> String {
    duration.as_millis().max(1).to_string()
}

/// A lease's random token. Without randomness there could be two of the same; the worst of it
/// is that something is read twice.
fn token() -> String {
    let (a, b) = (getrandom::u64().unwrap_or_default(), getrandom::u64().unwrap_or_default());
    format!("{a:016x}{b:016x}")
}
