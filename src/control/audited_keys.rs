//! The changes of keys that a caller makes. Each runs with its line of the audit log in a task of its
//! own, which goes on when the client closes the connection before the response, and which a shutdown
//! waits for.

use std::panic::resume_unwind;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::task::TaskTracker;

use super::call_limiter::CallSlot;
use super::error::ControlApiError;
use crate::keys::store::{KeyRotation, StoreError, StoredKey};
use crate::keys::{ApiKey, AuditLog, KeyChange, KeyLimits, KeyPrefix, KeyStore, NewKey};

/// A store of keys, to change one for a caller.
pub(super) struct AuditedKeys {
    pub(super) store: Arc<dyn KeyStore>,
    /// The limits of the caller; `None` for operators.
    pub(super) limits: Option<KeyLimits>,
    pub(super) audit_log: AuditLog,
    /// The tasks that change keys.
    pub(super) tasks: TaskTracker,
    pub(super) slot: CallSlot,
}

impl AuditedKeys {
    /// Creates a key.
    pub(super) async fn create(self, new: NewKey) -> Result<(ApiKey, StoredKey), ControlApiError> {
        finish(&self.tasks.clone(), self.slot, async move {
            let created = self.store.create_within(self.limits.as_ref(), &new).await;
            let (key, stored) =
                created.inspect_err(|error| self.audit_log.failed("create", None, error))?;
            self.audit_log.created(&stored.prefix, &stored.owner);
            Ok((key, stored))
        })
        .await
    }

    /// Revokes a key of `owner`, or of anybody.
    pub(super) async fn revoke(
        self,
        owner: Option<String>,
        prefix: KeyPrefix,
    ) -> Result<StoredKey, ControlApiError> {
        finish(&self.tasks.clone(), self.slot, async move {
            let revoked = self.store.revoke(owner.as_deref(), &prefix).await;
            let revoked = revoked.inspect_err(|error| {
                self.audit_log.failed("revoke", Some(prefix.as_str()), error);
            })?;
            self.audit_log.revoked(&revoked.prefix, &revoked.owner);
            Ok(revoked)
        })
        .await
    }

    /// Changes a key of `owner`, or of anybody.
    pub(super) async fn update(
        self,
        owner: Option<String>,
        prefix: KeyPrefix,
        change: KeyChange,
    ) -> Result<StoredKey, ControlApiError> {
        finish(&self.tasks.clone(), self.slot, async move {
            let limits = self.limits.as_ref();
            let updated =
                self.store.update_within(limits, owner.as_deref(), &prefix, &change).await;
            let updated = updated.inspect_err(|error| {
                self.audit_log.failed("update", Some(prefix.as_str()), error);
            })?;
            self.audit_log.updated(&updated.prefix, &updated.owner);
            Ok(updated)
        })
        .await
    }

    /// Rotates a key of `owner`, or of anybody.
    pub(super) async fn rotate(
        self,
        owner: Option<String>,
        prefix: KeyPrefix,
        overlap: Duration,
    ) -> Result<KeyRotation, ControlApiError> {
        finish(&self.tasks.clone(), self.slot, async move {
            let limits = self.limits.as_ref();
            let rotated =
                self.store.rotate_within(limits, owner.as_deref(), &prefix, overlap).await;
            let rotation = rotated.inspect_err(|error| {
                self.audit_log.failed("rotate", Some(prefix.as_str()), error);
            })?;
            let KeyRotation { new, replaced, .. } = &rotation;
            self.audit_log.rotated(&new.prefix, &new.owner, &replaced.prefix);
            Ok(rotation)
        })
        .await
    }
}

/// Runs a call in a task of its own, which holds `slot` to the end, and waits for it.
pub(super) async fn finish<T: Send + 'static>(
    tasks: &TaskTracker,
    slot: impl Send + 'static,
    call: impl Future<Output = Result<T, StoreError>> + Send + 'static,
) -> Result<T, ControlApiError> {
    let task = async move {
        let _slot = slot;
        call.await
    };
    match tasks.spawn(task).await {
        Ok(outcome) => Ok(outcome?),
        Err(error) => match error.try_into_panic() {
            Ok(panic) => resume_unwind(panic),
            Err(_) => Err(ControlApiError::Internal),
        },
    }
}
