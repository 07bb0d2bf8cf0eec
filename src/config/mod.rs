//! Configuration: one struct a concern, every key documented in `config/default.toml`.

mod cache;
mod upstream;

pub use cache::{AgesConfig, CacheConfig};
pub use upstream::UpstreamConfig;
