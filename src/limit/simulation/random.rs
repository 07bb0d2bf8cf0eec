//! Random numbers that depend on a seed alone.

/// SplitMix64: <https://prng.di.unimi.it/splitmix64.c>.
#[derive(Debug, Clone)]
pub(super) struct SeededRandom(pub(super) u64);

impl SeededRandom {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// From 0 to below `end`.
    pub(super) fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// True in one of `many` cases.
    pub(super) fn one_in(&mut self, many: u64) -> bool {
        self.below(many) == 0
    }

    /// True in one of `many` cases; never if `many` is 0.
    pub(super) fn perhaps(&mut self, many: u64) -> bool {
        many > 0 && self.one_in(many)
    }
}
