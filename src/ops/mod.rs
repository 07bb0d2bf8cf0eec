//! Observability: health, metrics, logs and traces.

mod cache_metrics;
pub mod catalog;
mod domain_metrics;
mod error_chain;
mod exposition;
mod health;
mod limit_metrics;
mod log_line;
mod log_text;
mod log_writer;
mod metrics;
#[cfg(feature = "otlp")]
mod otlp;
mod process;
mod request_metrics;
mod shed_metrics;
pub mod telemetry;
mod trace_context;
mod traces;

pub use cache_metrics::CacheEvent;
pub(crate) use error_chain::error_chain;
pub use exposition::Exposition;
pub use health::{CheckDependencies, Dependencies, Dependency, Health, PoolState};
pub use limit_metrics::{LimitMetrics, LimitResult};
pub(crate) use log_line::log_ms;
pub use metrics::Metrics;
pub use request_metrics::{RequestLabels, RequestMetrics, method_label};
pub use shed_metrics::{GaugeGuard, Shed, ShedMetrics};
pub use trace_context::{TraceContext, TraceId};
pub use traces::{RequestTrace, Traces, TracesError};
