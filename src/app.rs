//! The composition root: turns a validated configuration into a running replica. Nothing else
//! connects the modules; tests and commands run this same code.

mod background;
mod error;
mod key_management;
mod listeners;
mod load_config;
mod metrics_collector;
mod ops_listener;
mod redis;
mod running;
mod services;

use std::sync::Arc;
use std::time::Duration;

use crate::config::Config;
use crate::keys::UsageWriter;
use crate::ops::{Metrics, Traces};
use crate::server::Limits;
use crate::upstream::Upstream;

use background::spawn_background_tasks;
use listeners::BoundListener;
use services::Services;

pub use error::StartError;
pub use key_management::KeyManagement;
pub use load_config::load_config;
pub use running::Running;

/// Maximum connections to the operations listener, and to the control listener.
const MAX_INTERNAL_CONNECTIONS: usize = 64;

/// Grace time of the operations listener: its responses come from memory.
const OPS_GRACE: Duration = Duration::from_secs(1);

/// Starts a replica in front of `upstream`, with key management as configured. All its listeners
/// are bound when this returns.
///
/// # Errors
/// [`StartError`]; nothing is served then.
pub async fn start(config: &Config, upstream: Arc<dyn Upstream>) -> Result<Running, StartError> {
    start_with_keys(config, upstream, KeyManagement::configured(config)?).await
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
    let control = key_management::control_listener(config, keys.as_ref(), &metrics).await?;
    let redis = redis::connections(config)?;
    let usage = key_management::usage(keys);
    let usage_counts = usage.as_ref().map(|(counts, _)| Arc::clone(counts));
    let services = Services::new(config, upstream, redis, usage_counts, metrics);
    let traces = Traces::new(&config.telemetry)?;
    let tls = listeners::tls(config)?;

    let limits = listeners::limits(config);
    let internal_limits = Limits { connections: MAX_INTERNAL_CONNECTIONS, ..limits };
    let ops_limits = Limits { grace: OPS_GRACE, ..internal_limits };
    let public = public.serve(services.public_api(config, traces.clone()), tls.clone(), limits)?;
    let ops = ops.serve(services.ops_api(), None, ops_limits)?;
    let control =
        control.map(|(bound, api)| bound.serve(api, None, internal_limits)).transpose()?;
    let background = spawn_background_tasks(&services, tls);
    let usage_interval = config.keys.usage_every();
    let usage = usage.map(|(counts, store)| UsageWriter::start(counts, store, usage_interval));
    let (health, drain) = (services.health, config.server.drain());
    Ok(Running { public, ops, control, usage, health, drain, background, traces })
}
