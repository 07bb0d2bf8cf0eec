//! For operators: health, metrics, logs.

mod cache_metrics;
mod health;
mod limit_metrics;
mod listener;
mod metrics;
mod shed_metrics;
pub mod telemetry;

pub use cache_metrics::CacheEvent;
pub use health::{Dependency, Health};
pub use limit_metrics::{LimitMetrics, LimitResult};
pub use listener::{AskDependencies, Dependencies, OpsApi};
pub use metrics::{ControlLabels, Metrics, RequestLabels};
pub use shed_metrics::{Counted, Shed, ShedMetrics};
