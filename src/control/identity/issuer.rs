//! The issuer's signing keys: found by OpenID Connect Discovery, kept in memory, read again behind
//! once in a while and when a token names a key that is not among them (at most every
//! [`PAUSE`]), and kept when the issuer is away.

use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey};
use serde::Deserialize;
use serde_json::Value;
use thiserror::Error;

use crate::config::is_trustworthy;
use crate::net::{HttpClient, HttpError};
use crate::sync::{SingleFlight, TaskPanicked};

/// Keys older than this are read again behind.
const REFRESH: Duration = Duration::from_secs(300);

/// Keys older than this are worth nothing: those withdrawn since must not go on.
const KEPT: Duration = Duration::from_secs(24 * 3600);

/// Between two tries to read keys.
const PAUSE: Duration = Duration::from_secs(5);

/// An issuer has a few keys.
const MAX_KEYS: usize = 100;

/// Base64 of 2,048 bits, the least an RSA modulus may have.
const MIN_MODULUS_CHARS: usize = 342;

/// Why the issuer's keys can't be had.
#[derive(Debug, Error)]
pub enum IssuerError {
    /// A document can't be read.
    #[error("{what} cannot be read")]
    Document {
        /// Which one.
        what: &'static str,
        /// Why.
        source: HttpError,
    },
    /// The discovery document is another issuer's.
    #[error("the discovery document is of another issuer than control.oidc.issuer")]
    OtherIssuer,
    /// The key set's address is not worthy of trust.
    #[error("the discovery document's jwks_uri is not an https:// URL")]
    Address,
    /// There is no key in the set that could be used.
    #[error("the issuer's key set has no usable key")]
    NoKey,
    /// Reading them crashed.
    #[error(transparent)]
    Crashed(#[from] TaskPanicked),
}

#[derive(Deserialize)]
struct Discovery {
    issuer: String,
    jwks_uri: String,
}

#[derive(Deserialize)]
struct KeySet {
    keys: Vec<Value>,
}

type Outcome = Result<(), Arc<IssuerError>>;

/// The keys of one issuer.
#[derive(Clone)]
pub(super) struct IssuerKeys(Arc<Inner>);

struct Inner {
    issuer: String,
    web: HttpClient,
    known: RwLock<Option<Known>>,
    last_try: Mutex<Option<(Instant, Outcome)>>,
    flights: SingleFlight<(), Outcome>,
}

#[derive(Clone)]
struct Known {
    keys: Arc<Vec<Jwk>>,
    read_at: Instant,
}

impl IssuerKeys {
    pub(super) fn new(issuer: String, web: HttpClient) -> Self {
        let (known, last_try) = (RwLock::new(None), Mutex::new(None));
        Self(Arc::new(Inner { issuer, web, known, last_try, flights: SingleFlight::default() }))
    }

    /// The keys that may have signed a token with this header; empty where there are none.
    pub(super) async fn candidates(
        &self,
        kid: Option<&str>,
        algorithm: Algorithm,
    ) -> Result<Vec<DecodingKey>, Arc<IssuerError>> {
        if let Some(known) = self.known() {
            let found = fitting(&known.keys, kid, algorithm);
            if !found.is_empty() {
                if known.read_at.elapsed() > REFRESH {
                    self.0.flights.spawn(&(), || self.clone().read_again());
                }
                return Ok(found);
            }
        }
        self.0.flights.run(&(), || self.clone().read_again()).await.map_err(crashed)?.value?;
        Ok(self.known().map(|known| fitting(&known.keys, kid, algorithm)).unwrap_or_default())
    }

    fn known(&self) -> Option<Known> {
        let known = self.0.known.read().unwrap_or_else(PoisonError::into_inner).clone();
        known.filter(|known| known.read_at.elapsed() < KEPT)
    }

    /// Reads the keys, unless that was tried just now: then it came out as it did.
    async fn read_again(self) -> Outcome {
        let last = self.0.last_try.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some((at, outcome)) = last
            && at.elapsed() < PAUSE
        {
            return outcome;
        }
        let outcome = self.read().await.map_err(Arc::new);
        if let Err(error) = &outcome {
            let cause = std::error::Error::source(&**error).map(ToString::to_string);
            tracing::warn!(%error, cause, "the issuer's keys cannot be read");
        }
        let mut last = self.0.last_try.lock().unwrap_or_else(PoisonError::into_inner);
        *last = Some((Instant::now(), outcome.clone()));
        outcome
    }

    async fn read(&self) -> Result<(), IssuerError> {
        let Inner { issuer, web, .. } = &*self.0;
        let document = |what| move |source| IssuerError::Document { what, source };
        let url = format!("{}/.well-known/openid-configuration", issuer.trim_end_matches('/'));
        let discovery: Discovery =
            web.get_json(&url).await.map_err(document("the discovery document"))?;
        if discovery.issuer != *issuer {
            return Err(IssuerError::OtherIssuer);
        }
        if !is_trustworthy(discovery.jwks_uri.split('?').next().unwrap_or_default()) {
            return Err(IssuerError::Address);
        }
        let set: KeySet =
            web.get_json(&discovery.jwks_uri).await.map_err(document("the key set"))?;
        // One key of a kind that is not known here does not spoil the others.
        let keys = set.keys.into_iter().filter_map(|key| serde_json::from_value(key).ok());
        let keys: Vec<Jwk> = keys.take(MAX_KEYS).collect();
        if keys.is_empty() {
            return Err(IssuerError::NoKey);
        }
        let known = Known { keys: Arc::new(keys), read_at: Instant::now() };
        *self.0.known.write().unwrap_or_else(PoisonError::into_inner) = Some(known);
        Ok(())
    }
}

fn crashed(crashed: TaskPanicked) -> Arc<IssuerError> {
    Arc::new(crashed.into())
}

fn fitting(keys: &[Jwk], kid: Option<&str>, algorithm: Algorithm) -> Vec<DecodingKey> {
    let is_named = |key: &&Jwk| kid.is_none() || key.common.key_id.as_deref() == kid;
    let fitting = keys.iter().filter(is_named).filter(|key| fits(key, algorithm));
    fitting.filter_map(|key| DecodingKey::from_jwk(key).ok()).collect()
}

/// Whether a key is for signatures of this algorithm. What a token says it is signed with never
/// decides what a key is used for.
fn fits(key: &Jwk, algorithm: Algorithm) -> bool {
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
    fn a_key_is_used_for_nothing_but_what_it_is_for() {
        let key = |value: Value| serde_json::from_value::<Jwk>(value).expect("a key");
        let rsa = json!({ "kty": "RSA", "kid": "a", "n": "A".repeat(342), "e": "AQAB" });
        let with = |name: &str, value: &str| {
            let mut changed = rsa.clone();
            changed[name] = value.into();
            key(changed)
        };
        assert!(fits(&key(rsa.clone()), Algorithm::RS256));
        assert!(fits(&key(rsa.clone()), Algorithm::PS256));
        for algorithm in [Algorithm::HS256, Algorithm::ES256, Algorithm::EdDSA, Algorithm::RS512] {
            assert!(!fits(&key(rsa.clone()), algorithm), "{algorithm:?}");
        }
        assert!(fits(&with("use", "sig"), Algorithm::RS256));
        assert!(!fits(&with("use", "enc"), Algorithm::RS256));
        assert!(fits(&with("alg", "RS256"), Algorithm::RS256));
        assert!(!fits(&with("alg", "PS256"), Algorithm::RS256));
        assert!(!fits(&with("n", "short"), Algorithm::RS256));
        let secret = key(json!({ "kty": "oct", "k": "c2VjcmV0" }));
        assert!(!fits(&secret, Algorithm::HS256) && !fits(&secret, Algorithm::RS256));
        let ec = json!({ "kty": "EC", "crv": "P-384", "x": "x", "y": "y" });
        assert!(!fits(&key(ec), Algorithm::ES256));
        let keys = [key(rsa)];
        assert_eq!(fitting(&keys, Some("a"), Algorithm::RS256).len(), 1);
        assert_eq!(fitting(&keys, None, Algorithm::RS256).len(), 1);
        assert!(fitting(&keys, Some("b"), Algorithm::RS256).is_empty());
    }
}
