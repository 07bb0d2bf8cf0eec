//! Where keys are managed, and what counts their use.

use std::sync::Arc;

use super::StartError;
use super::listeners::{Bound, bind};
use crate::config::{Config, UpstreamConfig};
use crate::control::{ControlApi, Identities};
use crate::keys::{KeyStore, PostgresKeys, UsageCounts};
use crate::ops::Metrics;

/// Where keys are managed.
#[derive(Clone)]
pub struct KeyManagement {
    /// There.
    pub store: Arc<dyn KeyStore>,
    /// Whether anything may be written there: if so, keys' use is.
    pub writable: bool,
}

impl KeyManagement {
    /// Where the configuration says; `None` where nobody wants to know.
    ///
    /// # Errors
    /// [`StartError::KeysDatabase`].
    pub fn configured(config: &Config) -> Result<Option<Self>, StartError> {
        let store = match &config.control.database_url {
            Some(url) => {
                let own = UpstreamConfig { url: Some(url.clone()), ..config.upstream.clone() };
                PostgresKeys::new(&own)
            }
            None if config.control.bind.is_some() => PostgresKeys::read_only(&config.upstream),
            None => return Ok(None),
        };
        let store = Arc::new(store.map_err(StartError::KeysDatabase)?);
        Ok(Some(Self { store, writable: config.control.database_url.is_some() }))
    }
}

/// The control listener, if it is on: bound, and not served yet.
pub(super) async fn control(
    config: &Config,
    keys: Option<&KeyManagement>,
    metrics: &Arc<Metrics>,
) -> Result<Option<(Bound, ControlApi)>, StartError> {
    let (Some(address), Some(keys)) = (config.control.bind, keys) else { return Ok(None) };
    let socket = bind("control.bind", address).await?;
    if !keys.writable {
        tracing::warn!("no control.database_url: keys can be listed, and neither made nor revoked");
    }
    let identities = Identities::new(&config.control)?;
    let store = Arc::clone(&keys.store);
    let api = ControlApi::new(&config.control, identities, store, Arc::clone(metrics));
    Ok(Some((socket, api)))
}

/// What keys' use is counted in, and where it is to be written, if anywhere.
pub(super) fn usage(keys: Option<KeyManagement>) -> Option<(Arc<UsageCounts>, Arc<dyn KeyStore>)> {
    let Some(keys) = keys.filter(|keys| keys.writable) else {
        tracing::info!("no control.database_url: keys' last use is not written down");
        return None;
    };
    Some((Arc::default(), keys.store))
}
