//! Concurrency building blocks that know nothing of the service: single flight, circuit breaker,
//! token bucket.

mod breaker;
#[cfg(test)]
pub(crate) mod ending_runtime;
mod single_flight;
mod token_bucket;

pub use breaker::{Breaker, CallOutcome, Permit};
pub use single_flight::{Crashed, FlightOutcome, SingleFlight};
pub(crate) use token_bucket::TokenBucket;
