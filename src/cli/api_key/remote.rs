//! Manages keys through the control API of a server.

use std::collections::HashSet;

use async_trait::async_trait;
use hyper::Method;
use serde::Deserialize;
use serde_json::{Value, json};

use super::key_client::{CreatedKey, KeyClient, RotatedKey};
use super::key_client_error::KeyClientError;
use crate::cli::command::{CommandError, UsageError};
use crate::cli::session::{ControlClientError, ControlSession};
use crate::keys::store::{KeyRefusal, StoredKey};
use crate::keys::{KeyPrefix, KeySpec};

/// Keys requested at a time.
const PAGE_SIZE: usize = 200;

/// The keys that a server manages, of the user or of all users.
pub(super) struct RemoteKeyClient {
    session: ControlSession,
    all: bool,
}

#[derive(Debug, Deserialize)]
struct KeyPage {
    data: Vec<StoredKey>,
    has_more: bool,
}

impl RemoteKeyClient {
    /// The user's keys; with `all`, everyone's, which the server grants to operators.
    pub(super) fn new(session: ControlSession, all: bool) -> Self {
        Self { session, all }
    }

    async fn post<T: serde::de::DeserializeOwned>(
        &mut self,
        path: &str,
        body: &Value,
    ) -> Result<T, KeyClientError> {
        self.session.send(Method::POST, path, Some(body)).await.map_err(key_client_error)
    }
}

#[async_trait]
impl KeyClient for RemoteKeyClient {
    async fn create(&mut self, spec: KeySpec) -> Result<CreatedKey, KeyClientError> {
        let body = serde_json::to_value(spec).map_err(KeyClientError::other)?;
        self.post("/api-keys", &body).await
    }

    async fn list(&mut self) -> Result<Vec<StoredKey>, KeyClientError> {
        let mut keys: Vec<StoredKey> = Vec::new();
        // A key created between two pages shifts the others by one: duplicates are skipped.
        let mut seen = HashSet::new();
        let mut offset = 0;
        loop {
            let path = format!("/api-keys?limit={PAGE_SIZE}&offset={offset}&all={}", self.all);
            let page: KeyPage =
                self.session.send(Method::GET, &path, None).await.map_err(key_client_error)?;
            offset += page.data.len();
            let before = keys.len();
            keys.extend(page.data.into_iter().filter(|key| seen.insert(key.prefix.clone())));
            if !page.has_more || keys.len() == before {
                return Ok(keys);
            }
        }
    }

    async fn revoke(&mut self, prefix: &KeyPrefix) -> Result<StoredKey, KeyClientError> {
        let body = json!({ "prefix": prefix.as_str(), "all": self.all });
        self.post("/api-keys/revoke", &body).await
    }

    async fn rotate(
        &mut self,
        prefix: &KeyPrefix,
        overlap_s: u32,
    ) -> Result<RotatedKey, KeyClientError> {
        let body = json!({ "prefix": prefix.as_str(), "overlap_s": overlap_s, "all": self.all });
        self.post("/api-keys/rotate", &body).await
    }
}

/// Interprets an error of the control API.
fn key_client_error(error: CommandError) -> KeyClientError {
    let Some(ControlClientError::Rejected(rejection)) = error.downcast_ref() else {
        return KeyClientError::Other(error);
    };
    let refusal = match rejection.code.as_str() {
        "NOT_FOUND" => KeyRefusal::Unknown,
        "AMBIGUOUS" => {
            let keys = rejection.body.get("candidates").cloned().unwrap_or_default();
            KeyRefusal::Ambiguous(serde_json::from_value(keys).unwrap_or_default())
        }
        "ALREADY_ROTATED" => {
            let successor = rejection.body.get("successor").cloned().unwrap_or_default();
            match serde_json::from_value(successor) {
                Ok(successor) => KeyRefusal::AlreadyRotated(successor),
                Err(_) => return KeyClientError::Other(error),
            }
        }
        "NOT_ACTIVE" => KeyRefusal::NotActive,
        "INVALID_PREFIX" | "INVALID_PARAMETERS" => {
            let text = format!("{}; nothing was changed", rejection.message);
            return KeyClientError::other(UsageError::new(text));
        }
        _ => return KeyClientError::Other(error),
    };
    KeyClientError::Refused(refusal)
}
