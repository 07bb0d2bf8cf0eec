//! Authenticates callers of the control API by the token in `Authorization`. Tokens are verified
//! first, and only invalid ones are throttled: a valid token is never refused because others send
//! invalid ones from its address.

use std::collections::HashSet;

use poem::http::HeaderMap;

use super::access_token::AccessTokens;
use super::bearer;
use super::caller::{Caller, VerifiedIdentity};
use super::error::{AuthError, CredentialError};
use super::login_tokens::LoginTokens;
use crate::config::ControlConfig;
use crate::control::login_token::TYPE_PREFIX;
use crate::net::{AuthoritiesError, FailureLimiter, RequestSource};
use crate::registry::Timestamp;

/// Invalid tokens from one source that are told to be invalid: at once, and per second on average.
const INVALID_BURST: u32 = 30;
const INVALID_PER_SECOND: u32 = 1;

/// Authenticates callers. One a replica.
pub struct Identities {
    login_tokens: LoginTokens,
    access_tokens: Option<AccessTokens>,
    operators: HashSet<String>,
    invalid_tokens: FailureLimiter,
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
            invalid_tokens: FailureLimiter::new(
                "invalid login tokens and access tokens",
                INVALID_BURST,
                INVALID_PER_SECOND,
            ),
        })
    }

    /// The caller who sends these headers. `source`, which is called only if the token is invalid, is
    /// where the request comes from.
    ///
    /// # Errors
    /// The caller cannot be authenticated.
    pub async fn caller(
        &self,
        headers: &HeaderMap,
        source: impl FnOnce() -> RequestSource,
    ) -> Result<Caller, AuthError> {
        let verified = self.verify(bearer::token(headers)?).await;
        let is_invalid = match &verified {
            // It may be valid once the issuer's keys are read again.
            Err(AuthError::Refused(error)) => *error != CredentialError::UnknownKey,
            _ => false,
        };
        if is_invalid {
            let source = source();
            if !self.invalid_tokens.is_within_budget(source) {
                return Err(AuthError::TooManyInvalidTokens);
            }
            self.invalid_tokens.count(source);
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
