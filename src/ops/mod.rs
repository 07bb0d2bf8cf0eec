//! For operators: health, metrics, logs.

mod cache_metrics;
mod domain_metrics;
mod exposition;
mod health;
mod limit_metrics;
mod listener;
mod log_line;
mod log_writer;
mod metrics;
#[cfg(feature = "otlp")]
mod otlp;
mod process;
mod request_metrics;
pub mod series;
mod shed_metrics;
mod sources;
pub mod telemetry;
mod trace_context;
mod traces;

pub use cache_metrics::CacheEvent;
pub use exposition::Exposition;
pub use health::{Dependency, Health, PoolState};
pub use limit_metrics::{LimitMetrics, LimitResult};
pub use listener::{AskDependencies, Dependencies, LookAround, OpsApi};
pub use metrics::{ControlLabels, Metrics};
pub use request_metrics::{RequestLabels, RequestMetrics, method_word};
pub use shed_metrics::{Counted, Shed, ShedMetrics};
pub(crate) use sources::with_sources;
pub use trace_context::{TraceContext, TraceId};
pub use traces::{RequestTrace, Traces, TracesError};
