//! Configuration: one struct a concern, every key documented in `config/default.toml`.

mod upstream;

pub use upstream::UpstreamConfig;
