//! How often wrong tokens may come from one address. Tokens that were right a short while ago are
//! judged all the same, so that whoever guesses behind a proxy locks out nobody at work.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use moka::sync::Cache;

use crate::sync::TokenBucket;

/// Wrong tokens from one address: so many at once, and so many a second on average.
const AT_ONCE: u32 = 30;
const PER_SECOND: u32 = 1;

/// After that long an address has a full budget again, and need not be remembered.
const FORGOTTEN: Duration = Duration::from_secs(60);

/// For this long a right token is judged however many wrong ones come from its address.
const KNOWN: Duration = Duration::from_secs(600);

const ADDRESSES: u64 = 10_000;
const TOKENS: u64 = 10_000;

pub(super) struct AuthThrottle {
    by_address: Cache<IpAddr, Arc<TokenBucket>>,
    /// By SHA-256 of the token.
    right: Cache<[u8; 32], ()>,
}

impl Default for AuthThrottle {
    fn default() -> Self {
        let right = Cache::builder().max_capacity(TOKENS).time_to_live(KNOWN).build();
        let by_address = Cache::builder().max_capacity(ADDRESSES).time_to_idle(FORGOTTEN).build();
        Self { by_address, right }
    }
}

impl AuthThrottle {
    pub(super) fn may_try(&self, from: IpAddr, token: &[u8; 32]) -> bool {
        let used_up =
            self.by_address.get(&block(from)).is_some_and(|left| left.is_empty(Instant::now()));
        !used_up || self.right.contains_key(token)
    }

    pub(super) fn was_right(&self, token: [u8; 32]) {
        self.right.insert(token, ());
    }

    pub(super) fn was_wrong(&self, from: IpAddr) {
        let now = Instant::now();
        let new = || Arc::new(TokenBucket::new(AT_ONCE, PER_SECOND, now));
        self.by_address.get_with(block(from), new).try_take(now);
    }
}

/// Whoever has one IPv6 address has 2^64 of them.
fn block(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
        v4 => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guessing_is_bounded_for_an_address_and_a_known_token_goes_on() {
        let auth_throttle = AuthThrottle::default();
        let ip = |text: &str| text.parse::<IpAddr>().expect("an address");
        let (good, bad) = ([1; 32], [2; 32]);
        auth_throttle.was_right(good);
        for number in 0..AT_ONCE {
            let from = ip(&format!("2001:db8::{number:x}"));
            assert!(auth_throttle.may_try(from, &bad));
            auth_throttle.was_wrong(from);
        }
        assert!(!auth_throttle.may_try(ip("2001:db8::ffff"), &bad));
        assert!(auth_throttle.may_try(ip("2001:db8::ffff"), &good));
        assert!(auth_throttle.may_try(ip("2001:db8:0:1::1"), &bad));
    }
}
