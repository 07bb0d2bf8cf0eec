//! For operators: health, metrics, logs.

mod health;
mod listener;
mod metrics;
pub mod telemetry;

pub use health::{Dependency, Health};
pub use listener::{Dependencies, OpsApi};
pub use metrics::{Metrics, RequestLabels};
