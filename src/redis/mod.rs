//! The Redis client: connection pools with bounded waits and circuit breakers for a single server,
//! sentinels or a cluster, and all keys and all scripts in one file each.

mod calls;
mod cluster;
mod dial;
mod failure;
mod keys;
mod manager;
mod node;
mod pool;
mod probes;
mod scripts;
mod sentinel;
mod servers;
mod slots;
mod topology;

pub use calls::Call;
pub use failure::RedisFailure;
pub use keys::{AnswerKeys, RedisKeys};
pub use node::AccessMode;
pub use pool::RedisPool;
pub use scripts::{CacheScripts, LuaScript};
pub use servers::{Sentinels, Server, Servers, ServersError};
