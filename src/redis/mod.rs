//! The Redis client: connection pools with bounded waits and circuit breakers for a single server,
//! sentinels or a cluster. All keys are in `keys.rs`, all scripts in `scripts.rs`.

mod calls;
mod cluster;
mod dial;
mod failure;
mod keys;
mod manager;
mod memory;
mod node;
mod pool;
mod probes;
pub mod scripts;
mod sentinel;
mod servers;
mod slots;
mod topology;

pub use calls::Call;
pub use failure::RedisFailure;
pub use keys::{EntryKeys, RedisKeys};
pub use memory::{ServerMemory, ServerReading};
pub use node::AccessMode;
pub use pool::RedisPool;
pub use servers::{Sentinels, Server, Servers, ServersError};
