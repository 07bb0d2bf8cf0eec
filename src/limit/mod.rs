//! Rate limits: requests a minute for each API key, counted in fixed windows across all replicas.
//!
//! A key's window opens with its first request and lasts a minute. Redis counts it, in one round
//! trip for all requests of a replica that wait at the same time. While Redis is unavailable, each
//! replica enforces its share of the limit or refuses all requests; it never stops limiting.
//!
//! A window admits at most the largest limit in force in it. An outage of Redis that begins in the
//! window adds up to one share for each replica, an outage that began earlier up to two shares for
//! each affected replica. A loss of Redis's data adds the limit once.

mod clock;
mod exhausted_keys;
mod limiter;
mod local;
mod options;
mod outages;
mod redis_windows;
mod shared_limiter;
#[cfg(test)]
mod simulation;
mod window;
mod window_store;

pub use limiter::Limiter;
pub use options::{LimitOptions, LimiterUnavailable};
pub use window::{Decision, WINDOW};
