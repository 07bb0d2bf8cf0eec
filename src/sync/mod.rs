//! Concurrency building blocks that know nothing of the service: single flight, batches, circuit
//! breaker, token bucket, supervised tasks, throttled logging.

mod batch_queue;
mod batcher;
mod breaker;
#[cfg(test)]
pub(crate) mod ending_runtime;
#[cfg(test)]
pub(crate) mod fault;
mod lock;
mod log_throttle;
mod single_flight;
pub(crate) mod supervised;
mod task_panicked;
mod token_bucket;

pub(crate) use batch_queue::{BatchEntry, BatchError, WaitingRequests};
pub(crate) use batcher::{BatchExecutor, BatchLimits, Batcher, WhenFull};
pub use breaker::{Breaker, CallOutcome, Permit};
pub(crate) use lock::lock;
pub(crate) use log_throttle::LogThrottle;
pub use single_flight::{FlightOutcome, FlightReceiver, SingleFlight};
pub(crate) use supervised::supervise;
pub use task_panicked::TaskPanicked;
pub(crate) use token_bucket::TokenBucket;
