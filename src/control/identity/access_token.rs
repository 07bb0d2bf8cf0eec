//! Verifies access tokens of an OpenID Connect issuer (RFC 9068): JWTs that one of its keys signed
//! for the configured audience.

use std::time::Duration;

use jsonwebtoken::errors::ErrorKind;
use jsonwebtoken::{Algorithm, DecodingKey, Header, Validation, decode, decode_header};
use serde_json::{Map, Value};

use super::caller::{AuthMethod, VerifiedIdentity};
use super::discovery::LoginEndpoints;
use super::error::{AuthError, CredentialError};
use super::issuer::IssuerKeys;
use super::signatures::use_ring;
use crate::config::OidcConfig;
use crate::net::{AuthoritiesError, HttpClient, RequestSource, SourceQueue};
use crate::registry::{Timestamp, is_label};

/// Accepted signatures: asymmetric algorithms only.
const ALGORITHMS: [Algorithm; 4] =
    [Algorithm::RS256, Algorithm::PS256, Algorithm::ES256, Algorithm::EdDSA];

/// Tolerated difference between the issuer's clock and this one, in seconds.
const LEEWAY_S: u64 = 30;

/// Timeout for each of the issuer's documents.
const DOCUMENT_TIMEOUT: Duration = Duration::from_secs(5);

type Claims = Map<String, Value>;

/// Verifies the issuer's access tokens.
pub(super) struct AccessTokens {
    claims: ClaimVerifier,
    keys: IssuerKeys,
}

/// What the claims of an access token must say.
pub(crate) struct ClaimVerifier {
    pub(crate) issuer: String,
    pub(crate) audience: String,
    pub(crate) user_claim: String,
}

impl AccessTokens {
    /// `None` if no issuer is configured.
    pub(super) fn new(config: &OidcConfig) -> Result<Option<Self>, AuthoritiesError> {
        let (Some(issuer), Some(audience)) = (&config.issuer, &config.audience) else {
            return Ok(None);
        };
        let http = HttpClient::new(config.tls_ca_file.as_deref(), DOCUMENT_TIMEOUT)?;
        let claims = ClaimVerifier {
            issuer: issuer.clone(),
            audience: audience.clone(),
            user_claim: config.user_claim.clone(),
        };
        Ok(Some(Self { claims, keys: IssuerKeys::new(issuer.clone(), http) }))
    }

    /// Where browsers log in.
    pub(super) async fn login_endpoints(&self) -> Option<LoginEndpoints> {
        self.keys.endpoints().await
    }

    /// The identity of the token's user. Waits in `queue` for the verification of the signature.
    pub(super) async fn verify(
        &self,
        token: &str,
        source: RequestSource,
        queue: &SourceQueue,
    ) -> Result<VerifiedIdentity, AuthError> {
        let header = accepted_header(token)?;
        let candidates = self.keys.candidates(header.kid.as_deref(), header.alg).await;
        let candidates = candidates.map_err(AuthError::IssuerUnavailable)?;
        let _turn = queue.turn(source).await;
        Ok(self.claims.verify(token, header.alg, &candidates)?)
    }
}

impl ClaimVerifier {
    /// The identity of the user of a token that one of these keys signed.
    pub(crate) fn verify(
        &self,
        token: &str,
        algorithm: Algorithm,
        keys: &[DecodingKey],
    ) -> Result<VerifiedIdentity, CredentialError> {
        self.identity(&self.verified_claims(token, algorithm, keys)?)
    }

    fn verified_claims(
        &self,
        token: &str,
        algorithm: Algorithm,
        keys: &[DecodingKey],
    ) -> Result<Claims, CredentialError> {
        use_ring();
        let mut validation = Validation::new(algorithm);
        validation.leeway = LEEWAY_S;
        validation.validate_nbf = true;
        validation.set_issuer(&[&self.issuer]);
        validation.set_audience(&[&self.audience]);
        validation.set_required_spec_claims(&["exp", "iss", "aud"]);
        let mut refusal = CredentialError::UnknownKey;
        for key in keys {
            match decode::<Claims>(token, key, &validation) {
                Ok(decoded) => return Ok(decoded.claims),
                Err(error) => refusal = CredentialError::Invalid(reason(error.kind())),
            }
        }
        Err(refusal)
    }

    fn identity(&self, claims: &Claims) -> Result<VerifiedIdentity, CredentialError> {
        // The library also accepts a list of issuers; the standard allows one.
        if claims.get("iss").and_then(Value::as_str) != Some(&self.issuer) {
            return Err(CredentialError::Invalid("it is from another issuer"));
        }
        let user = claims.get(&self.user_claim).and_then(Value::as_str);
        let user = user.filter(|user| is_label(user));
        let user = user.ok_or_else(|| CredentialError::NoUser(self.user_claim.clone()))?;
        // Fractions of a second are cut off.
        let expiry = claims.get("exp").and_then(Value::as_f64).map(|expiry| expiry as i64);
        let expiry = expiry.and_then(|expiry| Timestamp::from_second(expiry).ok());
        Ok((user.to_owned(), AuthMethod::Oidc, expiry))
    }
}

/// The header of a token, if tokens with such a header are accepted at all.
pub(crate) fn accepted_header(token: &str) -> Result<Header, CredentialError> {
    let header = decode_header(token).map_err(|_| CredentialError::NotAJwt)?;
    if !ALGORITHMS.contains(&header.alg) {
        return Err(CredentialError::NotAJwt);
    }
    if header.crit.is_some() || header.enc.is_some() || header.zip.is_some() {
        return Err(CredentialError::Header("requirements that are not supported"));
    }
    let kind = header.typ.as_deref().map(str::to_ascii_lowercase);
    match kind.as_deref() {
        None | Some("at+jwt" | "application/at+jwt" | "jwt") => Ok(header),
        Some(_) => Err(CredentialError::Header("a typ other than that of access tokens")),
    }
}

const fn reason(error: &ErrorKind) -> &'static str {
    match error {
        ErrorKind::InvalidSignature => "its signature is invalid",
        ErrorKind::ExpiredSignature => "it has expired",
        ErrorKind::ImmatureSignature => "it is not valid yet",
        ErrorKind::InvalidIssuer => "it is from another issuer",
        ErrorKind::InvalidAudience => "it is for another audience",
        ErrorKind::MissingRequiredClaim(_) => "it lacks exp, iss or aud",
        _ => "it is malformed",
    }
}
