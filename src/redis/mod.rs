//! The Redis client: connection pools with bounded waits and circuit breakers for a single server,
//! sentinels or a cluster. All keys are in `keys.rs`, all scripts in `scripts.rs`.

mod availability;
mod calls;
mod cluster;
mod dial;
mod direct;
mod failure;
mod keys;
mod lane;
mod manager;
mod memory;
mod node;
mod node_pool;
mod pool;
mod probes;
mod refusals;
pub mod scripts;
mod sentinel;
mod servers;
mod slots;
mod topology;

pub use availability::AccessMode;
pub use calls::Call;
pub use direct::DirectConnection;
pub use failure::RedisFailure;
pub use keys::{EntryKeys, RedisKeys};
pub use memory::{ServerMemory, ServerReading};
pub use pool::RedisPool;
pub use servers::{Sentinels, Server, Servers, ServersError};
