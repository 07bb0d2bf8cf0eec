//! `[shed]`: how much is read from the registry's database at once, and what waits.

use std::time::Duration;

use serde::Deserialize;

/// What does not fit in here is answered with 503, or with an older answer.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShedConfig {
    /// Answers that are read at once; by default a few less than there are connections.
    pub max_misses: Option<usize>,
    /// Answers that may wait for their turn.
    pub queue: usize,
    /// How long each of them may wait, in milliseconds.
    pub wait_ms: u64,
}

impl ShedConfig {
    /// Answers that are read at once in front of a pool of so many connections. An eighth of
    /// them, but one at least where there are two, is left for look-ups of keys.
    pub fn misses(&self, pool_size: usize) -> usize {
        let spared = (pool_size / 8).max(1);
        self.max_misses.unwrap_or(pool_size.saturating_sub(spared)).max(1)
    }

    /// How long an answer may wait for its turn.
    pub const fn wait(&self) -> Duration {
        Duration::from_millis(self.wait_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_default_some_connections_are_left_for_keys() {
        let by_default = ShedConfig { max_misses: None, queue: 0, wait_ms: 0 };
        for (pool_size, misses) in [(0, 1), (1, 1), (2, 1), (4, 3), (16, 14), (100, 88)] {
            assert_eq!(by_default.misses(pool_size), misses, "{pool_size}");
        }
        let given = ShedConfig { max_misses: Some(5), ..by_default };
        assert_eq!(given.misses(16), 5);
    }
}
