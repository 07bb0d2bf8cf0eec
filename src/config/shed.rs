//! `[shed]`: bounds the concurrent reads of the registry's database, and the queue for them.

use serde::Deserialize;

/// Reads beyond these bounds are shed: answered with an older response, or with 503.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShedConfig {
    /// Maximum number of concurrent reads; by default slightly less than `upstream.pool_size`.
    pub max_misses: Option<usize>,
    /// Maximum number of reads that wait for their turn.
    pub queue: usize,
    /// Maximum wait of each, in milliseconds.
    pub wait_ms: u64,
}

impl ShedConfig {
    /// Maximum number of concurrent reads with a pool of `pool_size` connections. The default
    /// reserves an eighth of them, and at least one of several, for the lookup of API keys.
    pub fn max_reads(&self, pool_size: usize) -> usize {
        let reserved = (pool_size / 8).max(1);
        self.max_misses.unwrap_or(pool_size.saturating_sub(reserved)).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_reserves_connections_for_keys() {
        let by_default = ShedConfig { max_misses: None, queue: 0, wait_ms: 0 };
        for (pool_size, misses) in [(0, 1), (1, 1), (2, 1), (4, 3), (16, 14), (100, 88)] {
            assert_eq!(by_default.max_reads(pool_size), misses, "{pool_size}");
        }
        let given = ShedConfig { max_misses: Some(5), ..by_default };
        assert_eq!(given.max_reads(16), 5);
    }
}
