//! The issuer's signing keys, found by OpenID Connect Discovery and cached in memory. They are read
//! again in the background when they are older than [`REFRESH_AGE`], and when a token names an
//! unknown key, at most every [`RETRY_INTERVAL`]. While the issuer is unavailable they stay usable
//! for up to [`MAX_AGE`].

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey};
use serde::Deserialize;
use serde_json::Value;
use thiserror::Error;
use tokio::time::timeout;

use super::discovery::{Discovery, LoginEndpoints};
use crate::config::is_confidential_url;
use crate::net::{HttpClient, HttpError};
use crate::sync::{SingleFlight, TaskPanicked, lock};

/// Keys older than this are refreshed in the background.
const REFRESH_AGE: Duration = Duration::from_secs(300);

/// Keys older than this are not used: they may have been withdrawn since.
const MAX_AGE: Duration = Duration::from_secs(24 * 3600);

/// Time between two attempts to read the keys.
const RETRY_INTERVAL: Duration = Duration::from_secs(5);

/// Maximum wait for the endpoints at which browsers log in.
const ENDPOINTS_WAIT: Duration = Duration::from_secs(2);

/// Keys of a set that are used; an issuer has a few.
const MAX_KEYS: usize = 100;

/// Length in Base64 of 2,048 bits, the shortest accepted RSA modulus.
const MIN_MODULUS_CHARS: usize = 342;

/// Why the issuer's keys are unavailable.
#[derive(Debug, Error)]
pub enum IssuerKeysError {
    /// A document of the issuer cannot be read.
    #[error("cannot read {document}")]
    Document {
        /// The document's name.
        document: &'static str,
        /// The cause.
        source: HttpError,
    },
    /// The discovery document names another issuer.
    #[error("the discovery document names another issuer than control.oidc.issuer")]
    OtherIssuer,
    /// The URL of the key set is not `https://`.
    #[error("the discovery document's jwks_uri is not an https:// URL")]
    InsecureKeySetUrl,
    /// No key of the set is usable.
    #[error("the issuer's key set has no usable key")]
    NoKey,
    /// Reading the keys panicked.
    #[error(transparent)]
    Panicked(#[from] TaskPanicked),
}

#[derive(Deserialize)]
struct KeySet {
    keys: Vec<Value>,
}

type RefreshResult = Result<(), Arc<IssuerKeysError>>;

/// The keys of one issuer.
#[derive(Clone)]
pub(super) struct IssuerKeys(Arc<IssuerState>);

struct IssuerState {
    issuer: String,
    http: HttpClient,
    cached: Mutex<Option<CachedKeys>>,
    last_attempt: Mutex<Option<(Instant, RefreshResult)>>,
    flights: SingleFlight<(), RefreshResult>,
}

#[derive(Clone)]
struct CachedKeys {
    keys: Arc<Vec<Jwk>>,
    endpoints: Option<LoginEndpoints>,
    read_at: Instant,
}

impl IssuerKeys {
    pub(super) fn new(issuer: String, http: HttpClient) -> Self {
        let (cached, last_attempt) = (Mutex::default(), Mutex::default());
        let flights = SingleFlight::new("issuer_keys");
        Self(Arc::new(IssuerState { issuer, http, cached, last_attempt, flights }))
    }

    /// The keys that may have signed a token with this key id and algorithm; empty if there are none.
    pub(super) async fn candidates(
        &self,
        kid: Option<&str>,
        algorithm: Algorithm,
    ) -> Result<Vec<DecodingKey>, Arc<IssuerKeysError>> {
        if let Some(cached) = self.cached() {
            let found = usable_keys(&cached.keys, kid, algorithm);
            if !found.is_empty() {
                if cached.read_at.elapsed() > REFRESH_AGE {
                    self.0.flights.spawn(&(), (), || self.clone().refresh());
                }
                return Ok(found);
            }
        }
        self.0
            .flights
            .run(&(), || self.clone().refresh())
            .await
            .map_err(|panic| Arc::new(panic.into()))?
            .value?;
        let cached = self.cached().map(|cached| usable_keys(&cached.keys, kid, algorithm));
        Ok(cached.unwrap_or_default())
    }

    /// Where browsers log in; `None` if the issuer does not say, or is unavailable. Returns within
    /// [`ENDPOINTS_WAIT`].
    pub(super) async fn endpoints(&self) -> Option<LoginEndpoints> {
        let is_recent = |cached: &CachedKeys| cached.read_at.elapsed() <= REFRESH_AGE;
        if !self.cached().as_ref().is_some_and(is_recent) {
            let refresh = self.0.flights.run(&(), || self.clone().refresh());
            // Whether it succeeded shows in what is cached then; a failure has been logged.
            let _ = timeout(ENDPOINTS_WAIT, refresh).await;
        }
        self.cached()?.endpoints
    }

    fn cached(&self) -> Option<CachedKeys> {
        lock(&self.0.cached).clone().filter(|cached| cached.read_at.elapsed() < MAX_AGE)
    }

    /// Reads the keys, or returns the result of the last attempt if that was just now.
    async fn refresh(self) -> RefreshResult {
        let last = lock(&self.0.last_attempt).clone();
        if let Some((at, outcome)) = last
            && at.elapsed() < RETRY_INTERVAL
        {
            return outcome;
        }
        let outcome = self.read().await.map_err(Arc::new);
        if let Err(error) = &outcome {
            let cause = std::error::Error::source(&**error).map(ToString::to_string);
            tracing::warn!(%error, cause, "cannot read the issuer's signing keys");
        }
        *lock(&self.0.last_attempt) = Some((Instant::now(), outcome.clone()));
        outcome
    }

    async fn read(&self) -> Result<(), IssuerKeysError> {
        let IssuerState { issuer, http, .. } = &*self.0;
        let unreadable = |document| move |source| IssuerKeysError::Document { document, source };
        let url = format!("{}/.well-known/openid-configuration", issuer.trim_end_matches('/'));
        let discovery: Discovery =
            http.get_json(&url).await.map_err(unreadable("the discovery document"))?;
        if discovery.issuer != *issuer {
            return Err(IssuerKeysError::OtherIssuer);
        }
        if !is_confidential_url(discovery.jwks_uri.split('?').next().unwrap_or_default()) {
            return Err(IssuerKeysError::InsecureKeySetUrl);
        }
        let set: KeySet =
            http.get_json(&discovery.jwks_uri).await.map_err(unreadable("the key set"))?;
        // Keys of an unsupported type are skipped.
        let keys = set.keys.into_iter().filter_map(|key| serde_json::from_value(key).ok());
        let keys: Vec<Jwk> = keys.take(MAX_KEYS).collect();
        if keys.is_empty() {
            return Err(IssuerKeysError::NoKey);
        }
        let endpoints = discovery.endpoints();
        let were_usable = self.cached().is_none_or(|before| before.endpoints.is_some());
        if endpoints.is_none() && were_usable {
            tracing::warn!(
                "the issuer names no https:// endpoints to log in at, so nobody can log in on /keys"
            );
        }
        let cached = CachedKeys { keys: Arc::new(keys), endpoints, read_at: Instant::now() };
        *lock(&self.0.cached) = Some(cached);
        Ok(())
    }
}

fn usable_keys(keys: &[Jwk], kid: Option<&str>, algorithm: Algorithm) -> Vec<DecodingKey> {
    let is_named = |key: &&Jwk| kid.is_none() || key.common.key_id.as_deref() == kid;
    let usable = keys.iter().filter(is_named).filter(|key| allows(key, algorithm));
    usable.filter_map(|key| DecodingKey::from_jwk(key).ok()).collect()
}

/// Whether the issuer's key set allows this key for signatures of this algorithm. The token's own
/// header never decides that.
fn allows(key: &Jwk, algorithm: Algorithm) -> bool {
    let for_signatures = matches!(key.common.public_key_use, None | Some(PublicKeyUse::Signature));
    let of_algorithm = key.common.key_algorithm.is_none_or(|own| own == algorithm.into());
    let of_kind = match (&key.algorithm, algorithm) {
        (AlgorithmParameters::RSA(rsa), Algorithm::RS256 | Algorithm::PS256) => {
            rsa.n.len() >= MIN_MODULUS_CHARS
        }
        (AlgorithmParameters::EllipticCurve(ec), Algorithm::ES256) => {
            ec.curve == EllipticCurve::P256
        }
        (AlgorithmParameters::OctetKeyPair(pair), Algorithm::EdDSA) => {
            pair.curve == EllipticCurve::Ed25519
        }
        _ => false,
    };
    for_signatures && of_algorithm && of_kind
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_key_is_used_only_for_its_own_algorithm() {
        let key = |value: Value| serde_json::from_value::<Jwk>(value).expect("a key");
        let rsa = json!({ "kty": "RSA", "kid": "a", "n": "A".repeat(342), "e": "AQAB" });
        let with = |name: &str, value: &str| {
            let mut changed = rsa.clone();
            changed[name] = value.into();
            key(changed)
        };
        assert!(allows(&key(rsa.clone()), Algorithm::RS256));
        assert!(allows(&key(rsa.clone()), Algorithm::PS256));
        for algorithm in [Algorithm::HS256, Algorithm::ES256, Algorithm::EdDSA, Algorithm::RS512] {
            assert!(!allows(&key(rsa.clone()), algorithm), "{algorithm:?}");
        }
        assert!(allows(&with("use", "sig"), Algorithm::RS256));
        assert!(!allows(&with("use", "enc"), Algorithm::RS256));
        assert!(allows(&with("alg", "RS256"), Algorithm::RS256));
        assert!(!allows(&with("alg", "PS256"), Algorithm::RS256));
        assert!(!allows(&with("n", "short"), Algorithm::RS256));
        let secret = key(json!({ "kty": "oct", "k": "c2VjcmV0" }));
        assert!(!allows(&secret, Algorithm::HS256) && !allows(&secret, Algorithm::RS256));
        let ec = json!({ "kty": "EC", "crv": "P-384", "x": "x", "y": "y" });
        assert!(!allows(&key(ec), Algorithm::ES256));
        let keys = [key(rsa)];
        assert_eq!(usable_keys(&keys, Some("a"), Algorithm::RS256).len(), 1);
        assert_eq!(usable_keys(&keys, None, Algorithm::RS256).len(), 1);
        assert!(usable_keys(&keys, Some("b"), Algorithm::RS256).is_empty());
    }
}
