//! The store of API keys, the control listener that manages them, and the counting of their use.

use std::sync::Arc;

use super::error::StartError;
use super::listeners::BoundListener;
use crate::config::{Config, UpstreamConfig};
use crate::control::{ControlApi, Identities};
use crate::keys::{KeyStore, PostgresKeys, UsageCounts};
use crate::ops::Metrics;

/// The store of API keys.
#[derive(Clone)]
pub struct KeyManagement {
    /// Reads the keys, and writes them if `writable`.
    pub store: Arc<dyn KeyStore>,
    /// Whether the store accepts writes. If so, the last use of each key is written to it.
    pub writable: bool,
}

impl KeyManagement {
    /// The configured store: `control.database_url`, else, read-only, `upstream.url`; `None` if
    /// neither the control listener nor `control.database_url` is set.
    ///
    /// # Errors
    /// [`StartError::KeysDatabase`].
    pub fn configured(config: &Config) -> Result<Option<Self>, StartError> {
        let store = match &config.control.database_url {
            Some(url) => {
                let keys_config =
                    UpstreamConfig { url: Some(url.clone()), ..config.upstream.clone() };
                PostgresKeys::new(&keys_config)
            }
            None if config.control.bind.is_some() => PostgresKeys::read_only(&config.upstream),
            None => return Ok(None),
        };
        let store = Arc::new(store.map_err(StartError::KeysDatabase)?);
        Ok(Some(Self { store, writable: config.control.database_url.is_some() }))
    }
}

/// The control listener, bound and not yet served; `None` if it is off.
pub(super) async fn control_listener(
    config: &Config,
    keys: Option<&KeyManagement>,
    metrics: &Arc<Metrics>,
) -> Result<Option<(BoundListener, ControlApi)>, StartError> {
    let (Some(address), Some(keys)) = (config.control.bind, keys) else { return Ok(None) };
    let bound = BoundListener::bind("control.bind", address).await?;
    if !keys.writable {
        tracing::warn!(
            "control.database_url is not set: keys can be listed, but not created or revoked"
        );
    }
    let identities = Identities::new(&config.control)?;
    let store = Arc::clone(&keys.store);
    let api = ControlApi::new(&config.control, identities, store, Arc::clone(metrics));
    Ok(Some((bound, api)))
}

/// The counters of the keys' use, and the store to write them to; `None` if it is read-only.
pub(super) fn usage(keys: Option<KeyManagement>) -> Option<(Arc<UsageCounts>, Arc<dyn KeyStore>)> {
    let Some(keys) = keys.filter(|keys| keys.writable) else {
        tracing::info!("control.database_url is not set: the last use of keys is not recorded");
        return None;
    };
    Some((Arc::default(), keys.store))
}
