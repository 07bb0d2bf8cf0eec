//! The way to Redis: the pool that never keeps anybody waiting, and all keys and
//! scripts in one file each.

mod calls;
mod keys;
mod manager;
mod pool;
mod scripts;

pub use calls::Call;
pub use keys::{AnswerKeys, RedisKeys};
pub use pool::{NoAnswer, RedisPool, Side, check};
pub use scripts::{CacheScripts, Prepared};
