//! The composition root: turns a validated configuration into a running replica. Nothing else
//! connects the modules; tests and commands run this same code.

mod background;
mod error;
mod key_management;
mod listeners;
mod load_config;
mod metrics_collector;
mod ops_listener;
mod public_numbers;
mod redis;
mod running;
mod services;

use std::sync::Arc;
use std::time::Duration;

use crate::config::Config;
use crate::keys::UsageWriter;
use crate::ops::{Metrics, Traces};
use crate::upstream::Upstream;

use background::spawn_background_tasks;
use listeners::BoundListener;
use ops_listener::OpsApi;
use running::ShutdownTimes;
use services::Services;

pub use error::StartError;
pub use key_management::KeyManagement;
pub use load_config::load_config;
pub use running::Running;

/// Starts a replica in front of `upstream`, with key management as configured. All its listeners
/// are bound when this returns.
///
/// # Errors
/// [`StartError`]; nothing is served then.
pub async fn start(config: &Config, upstream: Arc<dyn Upstream>) -> Result<Running, StartError> {
    start_with_keys(config, upstream, KeyManagement::from_config(config)?).await
}

/// As [`start`], with another store for keys than the configured one.
///
/// # Errors
/// [`StartError`]; nothing is served then.
pub async fn start_with_keys(
    config: &Config,
    upstream: Arc<dyn Upstream>,
    keys: Option<KeyManagement>,
) -> Result<Running, StartError> {
    let public = BoundListener::bind("server.bind", config.server.bind).await?;
    let ops = BoundListener::bind("ops.bind", config.ops.bind).await?;
    let metrics = Arc::new(Metrics::default());
    let control = key_management::bind_control_listener(config, keys.as_ref(), &metrics).await?;
    let redis = redis::connections(config)?;
    let usage = key_management::usage_recording(config, keys)?;
    let usage_counts = usage.as_ref().map(|(counts, _)| Arc::clone(counts));
    let services = Services::new(config, upstream, redis, usage_counts, metrics);
    let traces = Traces::new(&config.telemetry)?;
    let tls = listeners::tls(config)?;

    let public_api = services.public_api(config, traces.clone());
    let peers = services.peers.clone();
    let (public_limits, ops_limits) = (listeners::limits(config), listeners::ops_limits(config));
    let public = public.serve(public_api, tls.clone(), peers.public, public_limits)?;
    let ops = ops.serve(OpsApi(Arc::clone(&services)), None, peers.ops, ops_limits)?;
    let key_changes = control.as_ref().map(|(_, api)| api.key_changes()).unwrap_or_default();
    let serve_control = |(bound, api): (BoundListener, _)| {
        bound.serve(api, None, peers.control, listeners::control_limits(config))
    };
    let control = control.map(serve_control).transpose()?;
    let background = spawn_background_tasks(&services, tls, config.pages.public_numbers);
    let usage_interval = Duration::from_secs(config.keys.usage_every_s);
    let usage = usage.map(|(counts, store)| UsageWriter::start(counts, store, usage_interval));
    let [drain, grace] =
        [config.server.drain_ms, config.server.grace_ms].map(Duration::from_millis);
    Ok(Running {
        public,
        ops,
        control,
        key_changes,
        publications: services.publications(),
        usage,
        health: Arc::clone(&services.health),
        times: ShutdownTimes { drain, grace },
        background,
        traces,
    })
}
