//! What operators rely on: metrics, alerts and the dashboard, traces, rolling restarts, and
//! behaviour under random faults.

mod chaos;
mod metrics;
#[cfg(not(feature = "otlp"))]
mod no_traces;
mod rolling_restart;
mod rules;
mod trace_ids;
#[cfg(feature = "otlp")]
mod traces;
