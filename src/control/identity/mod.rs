//! Who is asking. Callers come with an access token of the configured OpenID Connect issuer, or
//! with a login token that the configuration knows by its hash.

mod access_token;
mod auth_throttle;
mod bearer;
mod issuer;
mod login_tokens;

use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::Arc;

use poem::http::HeaderMap;
use sha2::{Digest, Sha256};
use thiserror::Error;

use self::access_token::AccessTokens;
use self::auth_throttle::AuthThrottle;
use self::login_tokens::LoginTokens;
use crate::config::ControlConfig;
use crate::net::AuthoritiesError;
use crate::registry::Timestamp;

pub use self::issuer::IssuerError;

/// Somebody who has proven who they are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// The user's handle: whose keys are meant.
    pub user: String,
    /// Whether they may see and change everybody's keys.
    pub operator: bool,
    /// How they have proven it.
    pub method: Method,
    /// Until when that holds; `None` for ever.
    pub expires_at: Option<Timestamp>,
}

/// How callers prove who they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// By an issuer's access token.
    Oidc,
    /// By a login token.
    Token,
}

impl Method {
    /// Its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Oidc => "oidc",
            Self::Token => "token",
        }
    }
}

/// Why a caller is not let in. Callers see one and the same answer; the log has this, in which
/// there is nothing of the token.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum Refusal {
    #[error("no token was sent")]
    Missing,
    #[error("the header Authorization is not one of the form: Bearer TOKEN")]
    NotBearer,
    #[error("the login token is malformed")]
    MalformedToken,
    #[error("the login token is unknown")]
    UnknownToken,
    #[error("the login token has expired")]
    ExpiredToken,
    #[error("the token is no login token, and no issuer is configured")]
    NoIssuer,
    #[error("the token is no signed JWT, or of an algorithm that is not taken")]
    NotAJwt,
    #[error("the JWT's header has {0}")]
    Header(&'static str),
    #[error("the issuer has no such key, or none of this algorithm")]
    UnknownKey,
    #[error("the access token is not good: {0}")]
    Invalid(&'static str),
    #[error("the access token's claim {0} is not a user's name")]
    NoUser(String),
}

/// Why it is not known who is asking.
#[derive(Debug, Clone, Error)]
pub enum AuthError {
    /// The caller is not let in.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// Too many wrong tokens came from the same address.
    #[error("too many wrong tokens came from the same address")]
    TooManyGuesses,
    /// The issuer's keys can't be had.
    #[error("the issuer's keys cannot be had")]
    IssuerUnavailable(#[source] Arc<IssuerError>),
}

/// Knows who is asking. One for each replica.
pub struct Identities {
    login_tokens: LoginTokens,
    access_tokens: Option<AccessTokens>,
    operators: HashSet<String>,
    auth_throttle: AuthThrottle,
}

impl Identities {
    /// Takes what the configuration says is to be taken. Asks nobody yet.
    ///
    /// # Errors
    /// The certificate authorities of the issuer can't be read.
    pub fn new(config: &ControlConfig) -> Result<Self, AuthoritiesError> {
        Ok(Self {
            login_tokens: LoginTokens::new(config.tokens.clone()),
            access_tokens: AccessTokens::new(&config.oidc)?,
            operators: config.operators.iter().cloned().collect(),
            auth_throttle: AuthThrottle::default(),
        })
    }

    /// Who sends these headers from this address.
    ///
    /// # Errors
    /// [`AuthError`].
    pub async fn caller(&self, headers: &HeaderMap, from: IpAddr) -> Result<Caller, AuthError> {
        let token = bearer::token(headers)?;
        let fingerprint = Sha256::digest(token.as_bytes()).into();
        if !self.auth_throttle.may_try(from, &fingerprint) {
            return Err(AuthError::TooManyGuesses);
        }
        let judged = self.judge(token).await;
        match &judged {
            Ok(_) => self.auth_throttle.was_right(fingerprint),
            Err(AuthError::Refused(_)) => self.auth_throttle.was_wrong(from),
            Err(_) => {}
        }
        let (user, method, expires_at) = judged?;
        Ok(Caller { operator: self.operators.contains(&user), user, method, expires_at })
    }

    async fn judge(&self, token: &str) -> Result<VerifiedIdentity, AuthError> {
        if token.starts_with(super::login_token::BRAND) {
            return Ok(self.login_tokens.judge(token, Timestamp::now())?);
        }
        let access_tokens = self.access_tokens.as_ref().ok_or(Refusal::NoIssuer)?;
        access_tokens.judge(token).await
    }
}

/// A user, how they proved it, and until when.
type VerifiedIdentity = (String, Method, Option<Timestamp>);
