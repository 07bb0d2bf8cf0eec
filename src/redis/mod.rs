//! The way to Redis, whatever its topology: the pools that never keep anybody waiting, and all
//! keys and scripts in one file each.

mod answer;
mod calls;
mod cluster;
mod dial;
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

pub use answer::RedisFailure;
pub use calls::Call;
pub use keys::{AnswerKeys, RedisKeys};
pub use node::AccessMode;
pub use pool::RedisPool;
pub use scripts::{CacheScripts, LuaScript};
pub use servers::{Sentinels, Server, Servers, ServersError};
