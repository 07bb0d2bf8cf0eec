//! Login tokens, which the configuration lists by their hashes.

use subtle::{Choice, ConditionallySelectable, ConstantTimeEq};

use super::caller::{AuthMethod, VerifiedIdentity};
use super::error::CredentialError;
use crate::config::TokenConfig;
use crate::control::login_token::LoginToken;
use crate::registry::Timestamp;

/// The configured login tokens.
pub(super) struct LoginTokens(Vec<TokenConfig>);

impl LoginTokens {
    pub(super) fn new(tokens: Vec<TokenConfig>) -> Self {
        Self(tokens)
    }

    /// The identity of the token's user. Takes the same time for each token, known or not.
    pub(super) fn verify(
        &self,
        token: &str,
        now: Timestamp,
    ) -> Result<VerifiedIdentity, CredentialError> {
        let token: LoginToken = token.parse().map_err(|_| CredentialError::MalformedToken)?;
        let hash = token.hash();
        let mut found = u32::MAX;
        for (index, known) in (0..).zip(&self.0) {
            let is_equal: Choice = known.sha256.ct_eq(&hash);
            found.conditional_assign(&index, is_equal);
        }
        let found = usize::try_from(found).ok().and_then(|index| self.0.get(index));
        let known = found.ok_or(CredentialError::UnknownToken)?;
        if known.expires.is_some_and(|expiry| now >= expiry) {
            return Err(CredentialError::ExpiredToken);
        }
        Ok((known.user.clone(), AuthMethod::Token, known.expires))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_configured_tokens_that_have_not_expired_are_accepted() {
        let [a, b, other] = [(); 3].map(|()| LoginToken::generate().expect("a token"));
        let expiry = Timestamp::from_second(100).expect("a time");
        let listed = |user: &str, token: &LoginToken, expires| TokenConfig {
            user: user.to_owned(),
            sha256: token.hash(),
            expires,
        };
        let tokens = LoginTokens::new(vec![listed("a", &a, None), listed("b", &b, Some(expiry))]);
        let before = Timestamp::from_second(99).expect("a time");
        let verify = |token: &str, now| tokens.verify(token, now);
        assert_eq!(verify(a.expose(), expiry), Ok(("a".to_owned(), AuthMethod::Token, None)));
        assert_eq!(
            verify(b.expose(), before),
            Ok(("b".to_owned(), AuthMethod::Token, Some(expiry)))
        );
        assert_eq!(verify(b.expose(), expiry), Err(CredentialError::ExpiredToken));
        assert_eq!(verify(other.expose(), before), Err(CredentialError::UnknownToken));
        assert_eq!(verify("grt_x", before), Err(CredentialError::MalformedToken));
        let none = LoginTokens::new(vec![]);
        assert_eq!(none.verify(a.expose(), expiry), Err(CredentialError::UnknownToken));
    }
}
