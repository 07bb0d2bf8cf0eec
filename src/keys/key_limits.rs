//! The limits that operators set for the keys of users, and what makes a key useless.

use thiserror::Error;

use crate::config::ControlConfig;
use crate::registry::READ_SCOPE;

/// What the keys of users may have at most. Operators, and those who manage keys in the database
/// itself, are exempt. Existing keys are not affected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyLimits {
    /// The highest rate limit of a key, in requests a minute.
    pub max_rate_limit: u32,
    /// The scopes that a key may have.
    pub scopes: Vec<String>,
    /// The number of keys of one user that are neither revoked nor expired, and of those that are made
    /// within a minute.
    pub max_keys: u32,
}

/// A user asked for more than operators allow. Nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum LimitExceeded {
    /// The rate limit is too high.
    #[error(
        "rate_limit_per_minute {asked} was asked for, but control.max_rate_limit allows users {max} \
         at most; nothing was changed. Ask for less, or ask an operator"
    )]
    RateLimit {
        /// The requested rate limit.
        asked: u32,
        /// The highest that is allowed.
        max: u32,
    },
    /// A scope is not allowed.
    #[error(
        "the scopes {asked} were asked for, but control.scopes allows users {allowed} only; nothing \
         was changed. Ask for allowed scopes, or ask an operator"
    )]
    Scopes {
        /// The requested scopes that are not allowed.
        asked: String,
        /// All allowed scopes.
        allowed: String,
    },
    /// The user has too many live keys.
    #[error(
        "one more live key was asked for, but the user has {live} and control.max_keys allows {max}; \
         nothing was changed. Revoke a key, rotate one without an overlap, or ask an operator"
    )]
    Keys {
        /// The number of keys that are neither revoked nor expired.
        live: u64,
        /// The number that is allowed.
        max: u32,
    },
    /// Too many keys of the user were made within the last minute, by creation or rotation.
    #[error(
        "one more key was asked for, but {made} keys of the user were made within the last minute and \
         control.max_keys allows {max}; nothing was changed. Wait a minute, or ask an operator"
    )]
    NewKeys {
        /// The number of keys made within the last minute, also of those that are not live any more.
        made: u64,
        /// The number that is allowed.
        max: u32,
    },
    /// The key exceeds the limits, and so its rotations must not multiply it.
    #[error(
        "an overlap was asked for, but the key exceeds control.max_rate_limit or control.scopes, and \
         {predecessor}, which it replaces, is still live; nothing was changed. Rotate without an overlap, \
         revoke {predecessor} first, or ask an operator"
    )]
    Overlap {
        /// The prefix of a key that it replaced, itself or by way of others.
        predecessor: String,
    },
}

/// Why nobody could use a key. Such a key is created only on explicit request.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum UselessKey {
    /// Its rate limit is 0.
    #[error("a key with the rate limit 0 is never served")]
    NoRequests,
    /// It has scopes that do not exist.
    #[error("there is no scope {asked}; known scopes: {known}")]
    UnknownScopes {
        /// The requested scopes that are unknown.
        asked: String,
        /// All known scopes.
        known: String,
    },
}

impl KeyLimits {
    /// The configured limits.
    pub fn from_config(config: &ControlConfig) -> Self {
        let ControlConfig { max_rate_limit, scopes, max_keys, .. } = config;
        Self { max_rate_limit: *max_rate_limit, scopes: scopes.clone(), max_keys: *max_keys }
    }

    /// Checks the scopes and the rate limit of a user's key.
    ///
    /// # Errors
    /// [`LimitExceeded::RateLimit`] or [`LimitExceeded::Scopes`].
    pub fn check(&self, scopes: &[String], rate_limit: u32) -> Result<(), LimitExceeded> {
        if rate_limit > self.max_rate_limit {
            return Err(LimitExceeded::RateLimit { asked: rate_limit, max: self.max_rate_limit });
        }
        let asked = not_among(scopes, |scope| self.scopes.iter().any(|allowed| allowed == scope));
        let allowed = self.scopes.join(", ");
        asked.map_or(Ok(()), |asked| Err(LimitExceeded::Scopes { asked, allowed }))
    }

    /// Checks whether there is room for one more key beside `live` ones.
    ///
    /// # Errors
    /// [`LimitExceeded::Keys`].
    pub fn check_count(&self, live: u64) -> Result<(), LimitExceeded> {
        let max = self.max_keys;
        if live < u64::from(max) { Ok(()) } else { Err(LimitExceeded::Keys { live, max }) }
    }

    /// Checks whether the user may make one more key after `made` within the last minute. Each key has
    /// a rate limit of its own, so replacing keys must not renew it at will. One key is always allowed.
    ///
    /// # Errors
    /// [`LimitExceeded::NewKeys`].
    pub fn check_new(&self, made: u64) -> Result<(), LimitExceeded> {
        let max = self.max_keys.max(1);
        if made < u64::from(max) { Ok(()) } else { Err(LimitExceeded::NewKeys { made, max }) }
    }

    /// Checks whether anybody could use a key: its rate limit is not 0, and its scopes are known,
    /// which are `read` and those that users may have.
    ///
    /// # Errors
    /// [`UselessKey`].
    pub fn check_useful(&self, scopes: &[String], rate_limit: u32) -> Result<(), UselessKey> {
        if rate_limit == 0 {
            return Err(UselessKey::NoRequests);
        }
        let known: Vec<&str> = std::iter::once(READ_SCOPE)
            .chain(self.scopes.iter().map(String::as_str).filter(|scope| *scope != READ_SCOPE))
            .collect();
        let asked = not_among(scopes, |scope| known.contains(&scope));
        let known = known.join(", ");
        asked.map_or(Ok(()), |asked| Err(UselessKey::UnknownScopes { asked, known }))
    }
}

impl UselessKey {
    /// The field of a request that is to blame.
    pub const fn field(&self) -> &'static str {
        match self {
            Self::NoRequests => "rate_limit_per_minute",
            Self::UnknownScopes { .. } => "scopes",
        }
    }
}

/// The scopes that are not among some others, as text; `None` if all are.
fn not_among(scopes: &[String], is_among: impl Fn(&str) -> bool) -> Option<String> {
    let others: Vec<&str> =
        scopes.iter().map(String::as_str).filter(|scope| !is_among(scope)).collect();
    (!others.is_empty()).then(|| others.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scopes(scopes: &[&str]) -> Vec<String> {
        scopes.iter().map(|scope| (*scope).to_owned()).collect()
    }

    #[test]
    fn refusals_name_the_limit_and_what_was_asked() {
        let limits =
            KeyLimits { max_rate_limit: 600, scopes: scopes(&["read", "x"]), max_keys: 20 };
        assert_eq!(limits.check(&scopes(&["x", "read"]), 600), Ok(()));
        assert_eq!((limits.check_count(19), limits.check_new(19)), (Ok(()), Ok(())));
        for (refused, words) in [
            (limits.check(&scopes(&["read"]), 601), ["601", "600", "control.max_rate_limit"]),
            (limits.check(&scopes(&["read", "a", "b"]), 1), ["a, b", "read, x", "control.scopes"]),
            (limits.check_count(20), ["20", "20", "control.max_keys"]),
            (limits.check_new(20), ["20", "control.max_keys", "Wait a minute"]),
        ] {
            let text = refused.expect_err("refused").to_string();
            assert!(words.iter().all(|word| text.contains(word)), "{text}");
        }
    }

    #[test]
    fn keys_that_nobody_could_use_are_found() {
        let limits = KeyLimits { max_rate_limit: 600, scopes: scopes(&["x"]), max_keys: 20 };
        assert_eq!(limits.check_useful(&scopes(&["read", "x"]), 1), Ok(()));
        let zero = limits.check_useful(&scopes(&["read"]), 0).expect_err("useless");
        assert_eq!(zero.field(), "rate_limit_per_minute");
        let typo = limits.check_useful(&scopes(&["raed", "x"]), 1).expect_err("useless");
        assert_eq!(typo.to_string(), "there is no scope raed; known scopes: read, x");
    }
}
