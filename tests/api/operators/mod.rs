//! What operators see and stand on: metrics, alerts and dashboard, traces, rolling restarts, and
//! what remains true while everything breaks.

mod chaos;
mod metrics;
#[cfg(not(feature = "otlp"))]
mod no_traces;
mod rolling_restart;
mod rules;
mod trace_ids;
#[cfg(feature = "otlp")]
mod traces;
