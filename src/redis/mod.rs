//! The way to Redis: the pool that never keeps anybody waiting, its breakers, and all keys and
//! scripts in one file each.

mod breaker;
mod keys;
mod manager;
mod pool;
mod scripts;

pub use breaker::{Breaker, Outcome, Permit};
pub use keys::RedisKeys;
pub use pool::{NoAnswer, RedisPool, Side};
pub use scripts::Prepared;
