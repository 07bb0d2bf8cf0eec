//! Who is asking: API keys against their records.

use std::sync::Arc;

use subtle::ConstantTimeEq;
use thiserror::Error;

use super::records::Records;
use super::token;
use super::usage::UsageCounts;
use crate::ops::Metrics;
use crate::registry::{ApiKeyRecord, KeyHash, Timestamp};
use crate::upstream::{UpstreamClient, UpstreamError};

/// The scope that every operation needs.
pub const READ_SCOPE: &str = "read";

/// Keys made elsewhere may be this long; ours are shorter.
const MAX_EXTERNAL_BYTES: usize = 128;

/// Why a caller is not let in. Callers see one and the same answer; the log has this.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum AuthDenied {
    #[error("no key was sent")]
    Missing,
    #[error("more than one key was sent")]
    SentTwice,
    #[error("the key is malformed")]
    Malformed,
    #[error("the key is unknown")]
    Unknown,
    #[error("the key has expired")]
    Expired,
    #[error("the key was revoked")]
    Revoked,
    #[error("the key lacks the scope read")]
    OutOfScope,
}

/// Why a caller is not let in, or can't be judged.
#[derive(Debug, Clone, Error)]
pub enum NotAuthenticated {
    /// The caller has no right to be here.
    #[error(transparent)]
    Denied(#[from] AuthDenied),
    /// The key's record can't be read at the moment.
    #[error("the key's record cannot be read")]
    Unavailable(#[source] Arc<UpstreamError>),
    /// Too many keys never seen are being looked up.
    #[error("too many unknown keys are being looked up")]
    TooManyUnknown,
    /// The look-up crashed.
    #[error(transparent)]
    TaskPanicked(#[from] crate::sync::TaskPanicked),
}

/// Checks keys. One for each replica.
pub struct Authenticator {
    records: Records,
    accept_external: bool,
    usage: Option<Arc<UsageCounts>>,
}

impl Authenticator {
    /// `accept_external`: also look up keys that were made elsewhere, of another form.
    pub fn new(
        upstream: Arc<UpstreamClient>,
        accept_external: bool,
        metrics: Arc<Metrics>,
    ) -> Self {
        Self { records: Records::new(upstream, metrics), accept_external, usage: None }
    }

    /// Counts, from now on, how keys are used.
    #[must_use]
    pub fn counting(mut self, usage: Option<Arc<UsageCounts>>) -> Self {
        self.usage = usage;
        self
    }

    /// How many keys are remembered with their record, and how many as unknown.
    pub fn remembered(&self) -> (u64, u64) {
        self.records.remembered()
    }

    /// Follows the change log, so that no record of a key that is known to have changed lets
    /// anybody in. Runs for ever; one task for each authenticator.
    pub async fn follow_changes(&self) {
        self.records.follow_changes().await;
    }

    /// The record of the key in `presented`, the values of the key header, judged by the
    /// upstream's clock: replicas whose own clocks differ agree on when a key ends.
    ///
    /// # Errors
    /// [`NotAuthenticated`].
    pub async fn check<'a>(
        &self,
        presented: impl Iterator<Item = &'a [u8]>,
    ) -> Result<Arc<ApiKeyRecord>, NotAuthenticated> {
        let key = one(presented)?;
        let hash = token::hash(key);
        let record = self.records.get(&hash, || self.has_form(key)).await?;
        let now = self.records.now();
        authorize(&record, &hash, now)?;
        if let Some(usage) = &self.usage {
            usage.note(&hash, now);
        }
        Ok(record)
    }

    fn has_form(&self, key: &[u8]) -> bool {
        token::is_key(key) || (self.accept_external && is_external_key(key))
    }
}

/// The key, if it is one and not too long to be any.
fn one<'a>(mut presented: impl Iterator<Item = &'a [u8]>) -> Result<&'a [u8], AuthDenied> {
    let key = presented.next().ok_or(AuthDenied::Missing)?;
    if presented.next().is_some() {
        return Err(AuthDenied::SentTwice);
    }
    if key.len() > MAX_EXTERNAL_BYTES { Err(AuthDenied::Malformed) } else { Ok(key) }
}

/// Keys made elsewhere: 16 to 128 visible ASCII characters, of any form but ours.
fn is_external_key(key: &[u8]) -> bool {
    (16..=MAX_EXTERNAL_BYTES).contains(&key.len())
        && key.iter().all(u8::is_ascii_graphic)
        && !key.starts_with(b"gr_")
}

/// To be compared in four steps, not in 32.
fn words(hash: &KeyHash) -> [u64; 4] {
    let (words, _) = hash.0.as_chunks();
    std::array::from_fn(|at| u64::from_ne_bytes(words[at]))
}

fn authorize(record: &ApiKeyRecord, hash: &KeyHash, now: Timestamp) -> Result<(), AuthDenied> {
    if !bool::from(words(&record.hash)[..].ct_eq(&words(hash)[..])) {
        return Err(AuthDenied::Unknown);
    }
    if record.revoked_at.is_some() {
        return Err(AuthDenied::Revoked);
    }
    if record.expires_at.is_some_and(|end| now >= end) {
        return Err(AuthDenied::Expired);
    }
    if !record.scopes.iter().any(|scope| scope == READ_SCOPE) {
        return Err(AuthDenied::OutOfScope);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> ApiKeyRecord {
        ApiKeyRecord {
            hash: KeyHash([7; 32]),
            prefix: "gr_00000000".to_owned(),
            owner: "team-a".to_owned(),
            name: "test".to_owned(),
            scopes: vec!["write".to_owned(), "read".to_owned()],
            rate_limit_per_minute: 30,
            expires_at: None,
            revoked_at: None,
        }
    }

    #[test]
    fn expiry_is_strict() {
        let end: Timestamp = "2026-01-31T00:00:00Z".parse().expect("a time");
        let record = ApiKeyRecord { expires_at: Some(end), ..record() };
        let at = |now| authorize(&record, &record.hash, now);
        assert_eq!(at(end - jiff::SignedDuration::from_micros(1)), Ok(()));
        assert_eq!(at(end), Err(AuthDenied::Expired));
    }

    #[test]
    fn each_reason_is_told_apart() {
        let now = Timestamp::UNIX_EPOCH;
        let ok = record();
        assert_eq!(authorize(&ok, &ok.hash, now), Ok(()));
        assert_eq!(authorize(&ok, &KeyHash([8; 32]), now), Err(AuthDenied::Unknown));
        let revoked = ApiKeyRecord { revoked_at: Some(now), ..record() };
        assert_eq!(authorize(&revoked, &ok.hash, now), Err(AuthDenied::Revoked));
        let narrow = ApiKeyRecord { scopes: vec!["reader".to_owned()], ..record() };
        assert_eq!(authorize(&narrow, &ok.hash, now), Err(AuthDenied::OutOfScope));
    }

    #[test]
    fn foreign_keys_are_of_any_form_but_ours() {
        assert!(is_external_key(b"sk-0123456789abcdef"));
        for wrong in [&b"short"[..], b"gr_0123456789abcdef", b"with space 0123456789", &[b'a'; 129]]
        {
            assert!(!is_external_key(wrong));
        }
    }
}
