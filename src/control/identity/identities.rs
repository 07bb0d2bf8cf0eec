//! Authenticates callers of the control API by the token in `Authorization`.

use std::collections::HashSet;
use std::net::IpAddr;

use poem::http::HeaderMap;
use sha2::{Digest, Sha256};

use super::access_token::AccessTokens;
use super::auth_throttle::AuthThrottle;
use super::bearer;
use super::caller::{Caller, VerifiedIdentity};
use super::error::{AuthError, CredentialError};
use super::login_tokens::LoginTokens;
use crate::config::ControlConfig;
use crate::control::login_token::TYPE_PREFIX;
use crate::net::AuthoritiesError;
use crate::registry::Timestamp;

/// Authenticates callers. One a replica.
pub struct Identities {
    login_tokens: LoginTokens,
    access_tokens: Option<AccessTokens>,
    operators: HashSet<String>,
    auth_throttle: AuthThrottle,
}

impl Identities {
    /// Accepts the configured credentials. Connects to nothing yet.
    ///
    /// # Errors
    /// The file of the issuer's certificate authorities cannot be read.
    pub fn new(config: &ControlConfig) -> Result<Self, AuthoritiesError> {
        Ok(Self {
            login_tokens: LoginTokens::new(config.tokens.clone()),
            access_tokens: AccessTokens::new(&config.oidc)?,
            operators: config.operators.iter().cloned().collect(),
            auth_throttle: AuthThrottle::default(),
        })
    }

    /// The caller who sends these headers from this address.
    ///
    /// # Errors
    /// The caller cannot be authenticated.
    pub async fn caller(&self, headers: &HeaderMap, from: IpAddr) -> Result<Caller, AuthError> {
        let token = bearer::token(headers)?;
        let fingerprint = Sha256::digest(token.as_bytes()).into();
        if !self.auth_throttle.may_verify(from, &fingerprint) {
            return Err(AuthError::TooManyInvalidTokens);
        }
        let verified = self.verify(token).await;
        match &verified {
            Ok(_) => self.auth_throttle.record_valid(fingerprint),
            Err(AuthError::Refused(_)) => self.auth_throttle.record_invalid(from),
            Err(_) => {}
        }
        let (user, method, expires_at) = verified?;
        Ok(Caller { operator: self.operators.contains(&user), user, method, expires_at })
    }

    async fn verify(&self, token: &str) -> Result<VerifiedIdentity, AuthError> {
        if token.starts_with(TYPE_PREFIX) {
            return Ok(self.login_tokens.verify(token, Timestamp::now())?);
        }
        let access_tokens = self.access_tokens.as_ref().ok_or(CredentialError::NoIssuer)?;
        access_tokens.verify(token).await
    }
}
