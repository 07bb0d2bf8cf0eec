//! The user's keys, through the control API of a server.

use std::collections::HashSet;

use async_trait::async_trait;
use hyper::Method;
use serde::Deserialize;
use serde_json::{Value, json};

use super::key_client::{Created, KeyClient, KeyError, Rotated};
use crate::cli::session::{ControlError, Session};
use crate::cli::{Error, UsageError};
use crate::keys::store::{KeyRefusal, StoredKey};
use crate::keys::{KeyPrefix, KeySpec};

/// Keys asked for at once.
const PAGE_SIZE: usize = 200;

/// See the module.
pub(super) struct Remote {
    session: Session,
    all: bool,
}

#[derive(Debug, Deserialize)]
struct KeyPage {
    data: Vec<StoredKey>,
    has_more: bool,
}

impl Remote {
    /// With `all`, also keys of others, which the server grants to operators.
    pub(super) fn new(session: Session, all: bool) -> Self {
        Self { session, all }
    }

    async fn post<T: serde::de::DeserializeOwned>(
        &mut self,
        path: &str,
        body: &Value,
    ) -> Result<T, KeyError> {
        self.session.ask(Method::POST, path, Some(body)).await.map_err(meaning)
    }
}

#[async_trait]
impl KeyClient for Remote {
    async fn create(&mut self, spec: KeySpec) -> Result<Created, KeyError> {
        let body = serde_json::to_value(spec).map_err(KeyError::other)?;
        self.post("/api-keys", &body).await
    }

    async fn list(&mut self) -> Result<Vec<StoredKey>, KeyError> {
        let mut keys: Vec<StoredKey> = Vec::new();
        // A key made meanwhile moves the others on by one: what comes twice is left out.
        let mut seen = HashSet::new();
        let mut offset = 0;
        loop {
            let path = format!("/api-keys?limit={PAGE_SIZE}&offset={offset}&all={}", self.all);
            let page: KeyPage =
                self.session.ask(Method::GET, &path, None).await.map_err(meaning)?;
            offset += page.data.len();
            let before = keys.len();
            keys.extend(page.data.into_iter().filter(|key| seen.insert(key.prefix.clone())));
            if !page.has_more || keys.len() == before {
                return Ok(keys);
            }
        }
    }

    async fn revoke(&mut self, prefix: &KeyPrefix) -> Result<StoredKey, KeyError> {
        let body = json!({ "prefix": prefix.as_str(), "all": self.all });
        self.post("/api-keys/revoke", &body).await
    }

    async fn rotate(&mut self, prefix: &KeyPrefix, overlap_s: u32) -> Result<Rotated, KeyError> {
        let body = json!({ "prefix": prefix.as_str(), "overlap_s": overlap_s, "all": self.all });
        self.post("/api-keys/rotate", &body).await
    }
}

/// What a refusal of the control API means to whoever asked.
fn meaning(error: Error) -> KeyError {
    let Some(ControlError::Refused(refused)) = error.downcast_ref() else {
        return KeyError::Other(error);
    };
    let refusal = match refused.code.as_str() {
        "NOT_FOUND" => KeyRefusal::Unknown,
        "AMBIGUOUS" => {
            let keys = refused.body.get("candidates").cloned().unwrap_or_default();
            KeyRefusal::Ambiguous(serde_json::from_value(keys).unwrap_or_default())
        }
        "ALREADY_ROTATED" => {
            let successor = refused.body.get("successor").cloned().unwrap_or_default();
            match serde_json::from_value(successor) {
                Ok(successor) => KeyRefusal::AlreadyRotated(successor),
                Err(_) => return KeyError::Other(error),
            }
        }
        "NOT_ACTIVE" => KeyRefusal::NotActive,
        "INVALID_PREFIX" | "INVALID_PARAMETERS" => {
            let text = format!("nothing was done: {}", refused.message);
            return KeyError::other(UsageError::new(text));
        }
        _ => return KeyError::Other(error),
    };
    KeyError::Refused(refusal)
}
