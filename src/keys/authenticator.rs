//! Authenticates requests: checks API keys against their records.

use std::sync::Arc;

use subtle::ConstantTimeEq;

use super::auth_error::{AuthDenied, NotAuthenticated};
use super::records::Records;
use super::token;
use super::usage::UsageCounts;
use crate::net::RequestSource;
use crate::ops::Metrics;
use crate::registry::{ApiKeyRecord, KeyHash, READ_SCOPE, Timestamp};
use crate::upstream::{BootInstant, UpstreamClient};

/// The longest external key, in bytes; our own keys are shorter.
const MAX_EXTERNAL_BYTES: usize = 128;

/// Checks keys. Each replica has one.
pub struct Authenticator {
    upstream: Arc<UpstreamClient>,
    records: Records,
    accept_external: bool,
    usage: Option<Arc<UsageCounts>>,
}

impl Authenticator {
    /// With `accept_external`, external keys are looked up too: keys that were made elsewhere, in
    /// another format. Counts the use of keys in `usage`, if there is one.
    pub fn new(
        upstream: Arc<UpstreamClient>,
        accept_external: bool,
        usage: Option<Arc<UsageCounts>>,
        metrics: Arc<Metrics>,
    ) -> Self {
        let records = Records::new(Arc::clone(&upstream), metrics);
        Self { upstream, records, accept_external, usage }
    }

    /// How many keys are cached with their record, and how many as unknown.
    pub fn cached_counts(&self) -> (u64, u64) {
        self.records.cached_counts()
    }

    /// Follows the change log, so that no request is authenticated by a record that is known to
    /// have changed. Runs forever, in one task for each authenticator.
    pub async fn follow_changes(&self) {
        self.records.follow_changes().await;
    }

    /// The record of the key in `presented`, the values of the key header. Expiry is checked by the
    /// upstream's clock, so replicas whose own clocks differ agree on when a key expires. `source`,
    /// which is called only for a key without a cached record, is where the request comes from.
    ///
    /// # Errors
    /// [`NotAuthenticated`] if no valid key was sent, or if its record can't be read.
    pub async fn check<'a>(
        &self,
        presented: impl Iterator<Item = &'a [u8]>,
        source: impl FnOnce() -> RequestSource,
    ) -> Result<Arc<ApiKeyRecord>, NotAuthenticated> {
        let key = only_key(presented)?;
        let hash = token::hash(key);
        let moment = BootInstant::now();
        let source = || self.check_format(key).map(|()| source());
        let record = self.records.get(&hash, moment, source).await?;
        let now = self.upstream.time_at(moment);
        authorize(&record, &hash, now)?;
        if let Some(usage) = &self.usage {
            usage.record(&hash, now);
        }
        Ok(record)
    }

    fn check_format(&self, key: &[u8]) -> Result<(), AuthDenied> {
        match (token::is_key(key), is_external_key(key)) {
            (true, _) => Ok(()),
            (false, true) if self.accept_external => Ok(()),
            (false, true) => Err(AuthDenied::External),
            (false, false) => Err(AuthDenied::Malformed),
        }
    }
}

/// The only value, unless it is longer than every valid key.
fn only_key<'a>(mut presented: impl Iterator<Item = &'a [u8]>) -> Result<&'a [u8], AuthDenied> {
    let key = presented.next().ok_or(AuthDenied::Missing)?;
    if presented.next().is_some() {
        return Err(AuthDenied::SentTwice);
    }
    if key.len() > MAX_EXTERNAL_BYTES { Err(AuthDenied::Malformed) } else { Ok(key) }
}

/// Whether this can be an external key: 16 to 128 visible ASCII characters without our own prefix.
pub(crate) fn is_external_key(key: &[u8]) -> bool {
    (16..=MAX_EXTERNAL_BYTES).contains(&key.len())
        && key.iter().all(u8::is_ascii_graphic)
        && !key.starts_with(token::TYPE_PREFIX.as_bytes())
}

/// The hash as four words, which are compared in 4 steps instead of 32.
fn words(hash: &KeyHash) -> [u64; 4] {
    let (words, _) = hash.0.as_chunks();
    std::array::from_fn(|index| u64::from_ne_bytes(words[index]))
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
    fn a_key_is_valid_until_just_before_its_expiry() {
        let end: Timestamp = "2026-01-31T00:00:00Z".parse().expect("a time");
        let record = ApiKeyRecord { expires_at: Some(end), ..record() };
        let at = |now| authorize(&record, &record.hash, now);
        assert_eq!(at(end - jiff::SignedDuration::from_micros(1)), Ok(()));
        assert_eq!(at(end), Err(AuthDenied::Expired));
    }

    #[test]
    fn each_reason_has_its_own_error() {
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
    fn external_keys_are_visible_ascii_without_our_prefix() {
        assert!(is_external_key(b"sk-0123456789abcdef"));
        for wrong in [&b"short"[..], b"gr_0123456789abcdef", b"with space 0123456789", &[b'a'; 129]]
        {
            assert!(!is_external_key(wrong));
        }
    }
}
