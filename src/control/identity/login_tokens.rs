//! Login tokens that the configuration lists by their hash.

use subtle::{Choice, ConditionallySelectable, ConstantTimeEq};

use super::{Method, Refusal, VerifiedIdentity};
use crate::config::TokenConfig;
use crate::control::LoginToken;
use crate::registry::Timestamp;

pub(super) struct LoginTokens(Vec<TokenConfig>);

impl LoginTokens {
    pub(super) fn new(tokens: Vec<TokenConfig>) -> Self {
        Self(tokens)
    }

    /// Whose token this is. Takes as long whichever of them it is, and if it is none.
    pub(super) fn judge(&self, token: &str, now: Timestamp) -> Result<VerifiedIdentity, Refusal> {
        let token: LoginToken = token.parse().map_err(|_| Refusal::MalformedToken)?;
        let hash = token.hash();
        let mut found = u32::MAX;
        for (at, known) in (0..).zip(&self.0) {
            let is_it: Choice = known.sha256.ct_eq(&hash);
            found.conditional_assign(&at, is_it);
        }
        let found = usize::try_from(found).ok().and_then(|at| self.0.get(at));
        let known = found.ok_or(Refusal::UnknownToken)?;
        if known.expires.is_some_and(|end| now >= end) {
            return Err(Refusal::ExpiredToken);
        }
        Ok((known.user.clone(), Method::Token, known.expires))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_listed_tokens_that_have_not_ended_are_taken() {
        let [a, b, other] = [(); 3].map(|()| LoginToken::generate().expect("a token"));
        let end = Timestamp::from_second(100).expect("a time");
        let listed = |user: &str, token: &LoginToken, expires| TokenConfig {
            user: user.to_owned(),
            sha256: token.hash(),
            expires,
        };
        let tokens = LoginTokens::new(vec![listed("a", &a, None), listed("b", &b, Some(end))]);
        let before = Timestamp::from_second(99).expect("a time");
        let judge = |token: &str, now| tokens.judge(token, now);
        assert_eq!(judge(a.expose(), end), Ok(("a".to_owned(), Method::Token, None)));
        assert_eq!(judge(b.expose(), before), Ok(("b".to_owned(), Method::Token, Some(end))));
        assert_eq!(judge(b.expose(), end), Err(Refusal::ExpiredToken));
        assert_eq!(judge(other.expose(), before), Err(Refusal::UnknownToken));
        assert_eq!(judge("grt_x", before), Err(Refusal::MalformedToken));
        let none = LoginTokens::new(vec![]);
        assert_eq!(none.judge(a.expose(), end), Err(Refusal::UnknownToken));
    }
}
