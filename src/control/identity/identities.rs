//! Authenticates callers of the control API by the token in `Authorization`. Tokens are verified
//! first, and only invalid ones are throttled: a valid token is never refused because others send
//! invalid ones, not even from its address. The signatures of sources that send too many invalid
//! tokens are verified last.

use std::collections::HashSet;

use poem::http::HeaderMap;

use super::access_token::AccessTokens;
use super::bearer;
use super::caller::{Caller, VerifiedIdentity};
use super::discovery::LoginEndpoints;
use super::error::{AuthError, CredentialError};
use super::login_tokens::LoginTokens;
use crate::config::ControlConfig;
use crate::control::login_token::TYPE_PREFIX;
use crate::net::{AuthoritiesError, FailureLimiter, RequestSource, SourceQueue};
use crate::registry::Timestamp;

/// Invalid tokens from one source that are told to be invalid: at once, and per second on average.
const INVALID_BURST: u32 = 30;
const INVALID_PER_SECOND: u32 = 1;

/// Signatures that are verified at a time, so that invalid tokens, of which any number may be sent,
/// take one processor at most.
const MAX_CONCURRENT: usize = 1;

/// Authenticates callers. One a replica.
pub struct Identities {
    login_tokens: LoginTokens,
    access_tokens: Option<AccessTokens>,
    operators: HashSet<String>,
    queue: SourceQueue,
}

impl Identities {
    /// Accepts the configured credentials. Connects to nothing yet.
    ///
    /// # Errors
    /// The file of the issuer's certificate authorities cannot be read.
    pub fn new(config: &ControlConfig) -> Result<Self, AuthoritiesError> {
        let invalid_tokens = FailureLimiter::new(
            "invalid login tokens and access tokens",
            INVALID_BURST,
            INVALID_PER_SECOND,
        );
        Ok(Self {
            login_tokens: LoginTokens::new(config.tokens.clone()),
            access_tokens: AccessTokens::new(&config.oidc)?,
            operators: config.operators.iter().cloned().collect(),
            queue: SourceQueue::new(invalid_tokens, MAX_CONCURRENT, MAX_CONCURRENT),
        })
    }

    /// The caller who sends these headers in a request from `source`.
    ///
    /// # Errors
    /// The caller cannot be authenticated.
    pub async fn caller(
        &self,
        headers: &HeaderMap,
        source: RequestSource,
    ) -> Result<Caller, AuthError> {
        let verified = self.verify(headers, source).await;
        if let Err(AuthError::Refused(error)) = &verified
            && *error != CredentialError::Missing
        {
            if self.queue.failures.is_within_budget(source) {
                self.queue.failures.count(source);
            } else if *error != CredentialError::UnknownKey {
                // A token with an unknown key may be valid once the issuer's keys are read again.
                return Err(AuthError::TooManyInvalidTokens);
            }
        }
        let (user, method, expires_at) = verified?;
        Ok(Caller { operator: self.operators.contains(&user), user, method, expires_at })
    }

    /// Where browsers log in; `None` without an issuer, or while it is unavailable.
    pub(crate) async fn login_endpoints(&self) -> Option<LoginEndpoints> {
        self.access_tokens.as_ref()?.login_endpoints().await
    }

    async fn verify(
        &self,
        headers: &HeaderMap,
        source: RequestSource,
    ) -> Result<VerifiedIdentity, AuthError> {
        let token = bearer::token(headers)?;
        if token.starts_with(TYPE_PREFIX) {
            return Ok(self.login_tokens.verify(token, Timestamp::now())?);
        }
        let access_tokens = self.access_tokens.as_ref().ok_or(CredentialError::NoIssuer)?;
        access_tokens.verify(token, source, &self.queue).await
    }
}
