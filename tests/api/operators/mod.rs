//! What operators rely on: metrics, the dashboard, alerts and their causes, traces, rolling restarts,
//! views that cannot be read, and behaviour under random faults.

mod alerts;
mod chaos;
mod metrics;
#[cfg(not(feature = "otlp"))]
mod no_traces;
mod rolling_restart;
mod rules;
mod trace_ids;
#[cfg(feature = "otlp")]
mod traces;
mod views;
