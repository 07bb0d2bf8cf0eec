//! Limits how often invalid tokens may come from one address. Tokens that were valid in the last ten
//! minutes are still verified, so that guessing behind a proxy locks out none of its other users.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use moka::sync::Cache;

use crate::sync::TokenBucket;

/// Invalid tokens from one address: a burst, and then a rate.
const BURST: u32 = 30;
const PER_SECOND: u32 = 1;

/// After this time an address has its full burst again and is forgotten.
const ADDRESS_IDLE: Duration = Duration::from_secs(60);

/// Time for which a valid token is verified again even if its address is exhausted.
const VALID_TOKEN_TTL: Duration = Duration::from_secs(600);

const MAX_ADDRESSES: u64 = 10_000;
const MAX_TOKENS: u64 = 10_000;

/// Counts invalid tokens by address.
pub(super) struct AuthThrottle {
    by_address: Cache<IpAddr, Arc<TokenBucket>>,
    /// By SHA-256 of the token.
    valid: Cache<[u8; 32], ()>,
}

impl Default for AuthThrottle {
    fn default() -> Self {
        let valid = Cache::builder().max_capacity(MAX_TOKENS).time_to_live(VALID_TOKEN_TTL).build();
        let by_address =
            Cache::builder().max_capacity(MAX_ADDRESSES).time_to_idle(ADDRESS_IDLE).build();
        Self { by_address, valid }
    }
}

impl AuthThrottle {
    /// Whether the token may be verified.
    pub(super) fn may_verify(&self, from: IpAddr, token: &[u8; 32]) -> bool {
        let bucket = self.by_address.get(&network(from));
        let is_exhausted = bucket.is_some_and(|bucket| bucket.is_empty(Instant::now()));
        !is_exhausted || self.valid.contains_key(token)
    }

    /// Remembers a valid token.
    pub(super) fn record_valid(&self, token: [u8; 32]) {
        self.valid.insert(token, ());
    }

    /// Counts an invalid token.
    pub(super) fn record_invalid(&self, from: IpAddr) {
        let now = Instant::now();
        let new = || Arc::new(TokenBucket::new(BURST, PER_SECOND, now));
        self.by_address.get_with(network(from), new).try_take(now);
    }
}

/// The address, or the /64 network of an IPv6 address: one host can use all of its addresses.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
        v4 => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_tokens_are_limited_by_address_and_a_valid_token_still_works() {
        let auth_throttle = AuthThrottle::default();
        let ip = |text: &str| text.parse::<IpAddr>().expect("an address");
        let (good, bad) = ([1; 32], [2; 32]);
        auth_throttle.record_valid(good);
        for number in 0..BURST {
            let from = ip(&format!("2001:db8::{number:x}"));
            assert!(auth_throttle.may_verify(from, &bad));
            auth_throttle.record_invalid(from);
        }
        assert!(!auth_throttle.may_verify(ip("2001:db8::ffff"), &bad));
        assert!(auth_throttle.may_verify(ip("2001:db8::ffff"), &good));
        assert!(auth_throttle.may_verify(ip("2001:db8:0:1::1"), &bad));
    }
}
