//! Who is asking: API keys against their records, which are kept in this process alone.
//!
//! A record is used for [`FRESH`]; then the next request looks it up again, and only if that
//! fails does the old record serve, for [`IF_UPSTREAM_FAILS`] at most.

use std::sync::Arc;
use std::time::{Duration, Instant};

use moka::sync::Cache;
use subtle::ConstantTimeEq;
use thiserror::Error;

use super::token::{self, ApiKey};
use crate::flight::Flights;
use crate::registry::Timestamp;
use crate::upstream::{ApiKeyRecord, KeyHash, Upstream, UpstreamError};

/// How long a record is used without another look-up.
const FRESH: Duration = Duration::from_secs(60);

/// How long a record serves while the upstream fails.
const IF_UPSTREAM_FAILS: Duration = Duration::from_secs(15 * 60);

/// How long a key is remembered to be unknown.
const UNKNOWN: Duration = Duration::from_secs(1);

/// Known records kept.
const RECORDS: u64 = 200_000;

/// Unknown keys remembered: a small budget of their own, so that junk pushes out no record.
const UNKNOWN_KEYS: u64 = 10_000;

/// The scope that every operation needs.
pub const READ_SCOPE: &str = "read";

/// Why a caller is not let in. Callers see one and the same answer; the log has this.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum Denial {
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
    Denied(#[from] Denial),
    /// The key's record can't be read at the moment.
    #[error("the key's record cannot be read")]
    Unavailable(#[source] Arc<UpstreamError>),
    /// The look-up crashed.
    #[error(transparent)]
    Crashed(#[from] crate::flight::Crashed),
}

type LookUp = Result<Option<Arc<Known>>, Arc<UpstreamError>>;

#[derive(Debug)]
struct Known {
    record: Arc<ApiKeyRecord>,
    looked_up: Instant,
}

/// Checks keys. One for each replica.
pub struct Authenticator {
    upstream: Arc<dyn Upstream>,
    accept_foreign: bool,
    known: Cache<KeyHash, Arc<Known>>,
    unknown: Cache<KeyHash, ()>,
    flights: Flights<KeyHash, LookUp>,
}

impl Authenticator {
    /// `accept_foreign`: also look up keys that were made elsewhere, of another form.
    pub fn new(upstream: Arc<dyn Upstream>, accept_foreign: bool) -> Self {
        Self {
            upstream,
            accept_foreign,
            known: Cache::builder().max_capacity(RECORDS).time_to_live(IF_UPSTREAM_FAILS).build(),
            unknown: Cache::builder().max_capacity(UNKNOWN_KEYS).time_to_live(UNKNOWN).build(),
            flights: Flights::default(),
        }
    }

    /// The record of the key in `presented`, the values of the key header, judged at `now`.
    ///
    /// # Errors
    /// [`NotAuthenticated`].
    pub async fn check<'a>(
        &self,
        presented: impl Iterator<Item = &'a [u8]>,
        now: Timestamp,
    ) -> Result<Arc<ApiKeyRecord>, NotAuthenticated> {
        let hash = self.hash_of(presented)?;
        let record = self.record(hash).await?;
        judge(&record, &hash, now)?;
        Ok(record)
    }

    fn hash_of<'a>(
        &self,
        mut presented: impl Iterator<Item = &'a [u8]>,
    ) -> Result<KeyHash, Denial> {
        let key = presented.next().ok_or(Denial::Missing)?;
        if presented.next().is_some() {
            return Err(Denial::SentTwice);
        }
        let own = std::str::from_utf8(key).ok().and_then(|text| text.parse::<ApiKey>().ok());
        match own {
            Some(key) => Ok(key.hash()),
            None if self.accept_foreign && is_foreign_key(key) => Ok(token::hash(key)),
            None => Err(Denial::Malformed),
        }
    }

    async fn record(&self, hash: KeyHash) -> Result<Arc<ApiKeyRecord>, NotAuthenticated> {
        let known = self.known.get(&hash);
        if let Some(known) = &known
            && known.looked_up.elapsed() < FRESH
        {
            return Ok(Arc::clone(&known.record));
        }
        if known.is_none() && self.unknown.contains_key(&hash) {
            return Err(Denial::Unknown.into());
        }
        match self.look_up(hash).await? {
            Ok(Some(found)) => Ok(Arc::clone(&found.record)),
            Ok(None) => Err(Denial::Unknown.into()),
            Err(error) => match known {
                Some(known) => Ok(Arc::clone(&known.record)),
                None => Err(NotAuthenticated::Unavailable(error)),
            },
        }
    }

    async fn look_up(&self, hash: KeyHash) -> Result<LookUp, crate::flight::Crashed> {
        let landed = self.flights.join(&hash, || {
            let upstream = Arc::clone(&self.upstream);
            let (known, unknown) = (self.known.clone(), self.unknown.clone());
            async move {
                let looked_up = Instant::now();
                let record = upstream.api_key(&hash).await.map_err(Arc::new)?;
                let found =
                    record.map(|record| Arc::new(Known { record: Arc::new(record), looked_up }));
                match &found {
                    Some(found) => known.insert(hash, Arc::clone(found)),
                    None => {
                        known.invalidate(&hash);
                        unknown.insert(hash, ());
                    }
                }
                Ok(found)
            }
        });
        Ok(landed.await?.value)
    }
}

/// Keys made elsewhere: 16 to 128 visible ASCII characters, of any form but ours.
fn is_foreign_key(key: &[u8]) -> bool {
    (16..=128).contains(&key.len())
        && key.iter().all(u8::is_ascii_graphic)
        && !key.starts_with(b"gr_")
}

fn judge(record: &ApiKeyRecord, hash: &KeyHash, now: Timestamp) -> Result<(), Denial> {
    if !bool::from(record.hash.0.ct_eq(&hash.0)) {
        return Err(Denial::Unknown);
    }
    if record.revoked_at.is_some() {
        return Err(Denial::Revoked);
    }
    if record.expires_at.is_some_and(|end| now >= end) {
        return Err(Denial::Expired);
    }
    if !record.scopes.iter().any(|scope| scope == READ_SCOPE) {
        return Err(Denial::OutOfScope);
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
        let at = |now| judge(&record, &record.hash, now);
        assert_eq!(at(end - jiff::SignedDuration::from_micros(1)), Ok(()));
        assert_eq!(at(end), Err(Denial::Expired));
    }

    #[test]
    fn each_reason_is_told_apart() {
        let now = Timestamp::UNIX_EPOCH;
        let ok = record();
        assert_eq!(judge(&ok, &ok.hash, now), Ok(()));
        assert_eq!(judge(&ok, &KeyHash([8; 32]), now), Err(Denial::Unknown));
        let revoked = ApiKeyRecord { revoked_at: Some(now), ..record() };
        assert_eq!(judge(&revoked, &ok.hash, now), Err(Denial::Revoked));
        let narrow = ApiKeyRecord { scopes: vec!["reader".to_owned()], ..record() };
        assert_eq!(judge(&narrow, &ok.hash, now), Err(Denial::OutOfScope));
    }

    #[test]
    fn foreign_keys_are_of_any_form_but_ours() {
        assert!(is_foreign_key(b"sk-0123456789abcdef"));
        for wrong in [&b"short"[..], b"gr_0123456789abcdef", b"with space 0123456789", &[b'a'; 129]]
        {
            assert!(!is_foreign_key(wrong));
        }
    }
}
