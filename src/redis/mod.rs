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

pub use answer::NoAnswer;
pub use calls::Call;
pub use keys::{AnswerKeys, RedisKeys};
pub use node::Side;
pub use pool::RedisPool;
pub use scripts::{CacheScripts, Prepared};
pub use servers::{Sentinels, Server, Servers, ServersError};
