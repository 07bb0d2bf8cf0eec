//! Integers that every JSON client parses to the same value.

use serde::{Deserialize, Serialize};

/// The largest integer that an IEEE 754 double represents exactly, and so every JSON client:
/// 2^53 - 1.
pub const MAX_SAFE_INTEGER: u64 = (1 << 53) - 1;

/// An integer from 0 to 2^53 - 1. Values outside saturate.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Count(u64);

impl Count {
    /// The value.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// `value`, clamped to 0 to 2^53 - 1.
    pub fn saturating(value: i64) -> Self {
        Self(u64::try_from(value).unwrap_or(0).min(MAX_SAFE_INTEGER))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_saturate_at_both_ends() {
        assert_eq!(Count::saturating(-1).get(), 0);
        assert_eq!(Count::saturating(7).get(), 7);
        assert_eq!(Count::saturating(9_007_199_254_740_991).get(), 9_007_199_254_740_991);
        assert_eq!(Count::saturating(9_007_199_254_740_992).get(), 9_007_199_254_740_991);
        assert_eq!(Count::saturating(i64::MAX).get(), MAX_SAFE_INTEGER);
    }
}
