//! Access tokens of an OpenID Connect issuer (RFC 9068): JWTs, signed by one of its keys, made out
//! to us.

use std::time::Duration;

use jsonwebtoken::errors::ErrorKind;
use jsonwebtoken::{Algorithm, DecodingKey, Header, Validation, decode, decode_header};
use serde_json::{Map, Value};

use super::issuer::IssuerKeys;
use super::{AuthError, Method, Refusal, VerifiedIdentity};
use crate::config::OidcConfig;
use crate::net::AuthoritiesError;
use crate::net::HttpClient;
use crate::registry::{Timestamp, is_label};

/// What tokens may be signed with: asymmetric algorithms alone.
const ALGORITHMS: [Algorithm; 4] =
    [Algorithm::RS256, Algorithm::PS256, Algorithm::ES256, Algorithm::EdDSA];

/// The issuer's clock and ours may differ by so many seconds.
const LEEWAY_S: u64 = 30;

/// For each of the issuer's documents.
const PATIENCE: Duration = Duration::from_secs(5);

type Claims = Map<String, Value>;

pub(super) struct AccessTokens {
    issuer: String,
    audience: String,
    user_claim: String,
    keys: IssuerKeys,
}

impl AccessTokens {
    /// Those of the configured issuer, if there is one.
    pub(super) fn new(config: &OidcConfig) -> Result<Option<Self>, AuthoritiesError> {
        let (Some(issuer), Some(audience)) = (&config.issuer, &config.audience) else {
            return Ok(None);
        };
        let web = HttpClient::new(config.tls_ca_file.as_deref(), PATIENCE)?;
        Ok(Some(Self {
            issuer: issuer.clone(),
            audience: audience.clone(),
            user_claim: config.user_claim.clone(),
            keys: IssuerKeys::new(issuer.clone(), web),
        }))
    }

    /// Whose access token this is.
    pub(super) async fn judge(&self, token: &str) -> Result<VerifiedIdentity, AuthError> {
        let header = decode_header(token).map_err(|_| Refusal::NotAJwt)?;
        check_header(&header)?;
        let candidates = self.keys.candidates(header.kid.as_deref(), header.alg).await;
        let candidates = candidates.map_err(AuthError::IssuerUnavailable)?;
        let claims = self.verified(token, header.alg, &candidates)?;
        Ok(self.proven(&claims)?)
    }

    fn verified(
        &self,
        token: &str,
        algorithm: Algorithm,
        keys: &[DecodingKey],
    ) -> Result<Claims, Refusal> {
        let mut validation = Validation::new(algorithm);
        validation.leeway = LEEWAY_S;
        validation.validate_nbf = true;
        validation.set_issuer(&[&self.issuer]);
        validation.set_audience(&[&self.audience]);
        validation.set_required_spec_claims(&["exp", "iss", "aud"]);
        let mut refusal = Refusal::UnknownKey;
        for key in keys {
            match decode::<Claims>(token, key, &validation) {
                Ok(decoded) => return Ok(decoded.claims),
                Err(error) => refusal = Refusal::Invalid(what_is_wrong(error.kind())),
            }
        }
        Err(refusal)
    }

    fn proven(&self, claims: &Claims) -> Result<VerifiedIdentity, Refusal> {
        // The library takes a list of issuers too; the standard knows one.
        if claims.get("iss").and_then(Value::as_str) != Some(&self.issuer) {
            return Err(Refusal::Invalid("it is of another issuer"));
        }
        let user = claims.get(&self.user_claim).and_then(Value::as_str);
        let user = user.filter(|user| is_label(user));
        let user = user.ok_or_else(|| Refusal::NoUser(self.user_claim.clone()))?;
        // A fraction of a second is cut off.
        let end = claims.get("exp").and_then(Value::as_f64).map(|end| end as i64);
        let end = end.and_then(|end| Timestamp::from_second(end).ok());
        Ok((user.to_owned(), Method::Oidc, end))
    }
}

fn check_header(header: &Header) -> Result<(), Refusal> {
    if !ALGORITHMS.contains(&header.alg) {
        return Err(Refusal::NotAJwt);
    }
    if header.crit.is_some() || header.enc.is_some() || header.zip.is_some() {
        return Err(Refusal::Header("demands that are not understood here"));
    }
    let kind = header.typ.as_deref().map(str::to_ascii_lowercase);
    match kind.as_deref() {
        None | Some("at+jwt" | "application/at+jwt" | "jwt") => Ok(()),
        Some(_) => Err(Refusal::Header("a typ that is no access token's")),
    }
}

const fn what_is_wrong(error: &ErrorKind) -> &'static str {
    match error {
        ErrorKind::InvalidSignature => "its signature is wrong",
        ErrorKind::ExpiredSignature => "it has expired",
        ErrorKind::ImmatureSignature => "it is not valid yet",
        ErrorKind::InvalidIssuer => "it is of another issuer",
        ErrorKind::InvalidAudience => "it is made out to somebody else",
        ErrorKind::MissingRequiredClaim(_) => "it lacks exp, iss or aud",
        _ => "it is malformed",
    }
}
