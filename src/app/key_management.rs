//! The store of API keys, the control listener that manages them, and the counting of their use.

use std::sync::Arc;

use secrecy::SecretString;

use super::error::StartError;
use super::listeners::BoundListener;
use crate::config::{Config, UpstreamConfig};
use crate::control::{ControlApi, Identities};
use crate::http::trusted_proxies::TrustedProxies;
use crate::keys::{KeyStore, PostgresKeys, UsageCounts};
use crate::ops::Metrics;

/// The store of API keys, and whether this replica may write to it.
#[derive(Clone)]
pub struct KeyManagement {
    /// Reads the keys, and writes them if `writable`.
    pub store: Arc<dyn KeyStore>,
    /// Whether the store accepts writes. If so, the last use of each key is written to it.
    pub writable: bool,
}

impl KeyManagement {
    /// The store at `control.database_url`. Without that, and if the control listener is on, the one
    /// at `upstream.url`, read-only. Otherwise `None`.
    ///
    /// # Errors
    /// [`StartError::Database`].
    pub fn from_config(config: &Config) -> Result<Option<Self>, StartError> {
        let store = match &config.control.database_url {
            Some(url) => PostgresKeys::new(&upstream_at(url, config)),
            None if config.control.bind.is_some() => PostgresKeys::read_only(&config.upstream),
            None => return Ok(None),
        };
        let key = "control.database_url";
        let store = Arc::new(store.map_err(|error| StartError::Database { key, error })?);
        Ok(Some(Self { store, writable: config.control.database_url.is_some() }))
    }
}

/// The settings of `[upstream]` with another URL.
fn upstream_at(url: &SecretString, config: &Config) -> UpstreamConfig {
    UpstreamConfig { url: Some(url.clone()), ..config.upstream.clone() }
}

/// Binds the control listener without serving it; `None` if it is off.
///
/// # Errors
/// [`StartError`], if the address cannot be bound or the issuer cannot be used.
pub(super) async fn bind_control_listener(
    config: &Config,
    keys: Option<&KeyManagement>,
    metrics: &Arc<Metrics>,
) -> Result<Option<(BoundListener, ControlApi)>, StartError> {
    let (Some(address), Some(keys)) = (config.control.bind, keys) else { return Ok(None) };
    let bound = BoundListener::bind("control.bind", address).await?;
    if !keys.writable {
        tracing::warn!(
            "control.database_url is not set: keys can be listed, but not created or revoked. Set it \
             to the URL of a role that may write keys"
        );
    }
    let identities = Identities::new(&config.control)?;
    let store = Arc::clone(&keys.store);
    let proxies = TrustedProxies::new(config.server.trusted_proxies.clone());
    let api = ControlApi::new(&config.control, identities, &proxies, store, Arc::clone(metrics));
    Ok(Some((bound, api)))
}

/// The counters of the keys' usage, and the store to write them to.
pub(super) type UsageRecording = (Arc<UsageCounts>, Arc<dyn KeyStore>);

/// Where the use of keys is counted, and written to: the store at
/// `keys.usage_database_url`, otherwise `keys`; `None` if neither accepts writes.
///
/// # Errors
/// [`StartError::Database`].
pub(super) fn usage_recording(
    config: &Config,
    keys: Option<KeyManagement>,
) -> Result<Option<UsageRecording>, StartError> {
    if let Some(url) = &config.keys.usage_database_url {
        let key = "keys.usage_database_url";
        let store = PostgresKeys::for_usage(&upstream_at(url, config));
        let store = store.map_err(|error| StartError::Database { key, error })?;
        return Ok(Some((Arc::default(), Arc::new(store))));
    }
    let Some(keys) = keys.filter(|keys| keys.writable) else {
        tracing::info!(
            "keys.usage_database_url is not set, and control.database_url is not set: the last use of keys is \
             not recorded. Set the first to the URL of the role gene_registry_usage"
        );
        return Ok(None);
    };
    Ok(Some((Arc::default(), keys.store)))
}
