//! The audit log: one line for each change of a key, and for each that may have happened, at every
//! level of the log.

use super::store::StoreError;
use crate::ops::telemetry::AUDIT;

/// Logs the changes that one user makes.
#[derive(Debug, Clone)]
pub struct AuditLog {
    user: String,
    via: &'static str,
}

impl AuditLog {
    /// For the changes of `user`, made through `via`.
    pub fn new(user: impl Into<String>, via: &'static str) -> Self {
        Self { user: user.into(), via }
    }

    /// Logs that a key was created.
    pub fn created(&self, prefix: &str, owner: &str) {
        self.log("create", prefix, owner, None);
    }

    /// Logs that a key was revoked.
    pub fn revoked(&self, prefix: &str, owner: &str) {
        self.log("revoke", prefix, owner, None);
    }

    /// Logs that the name, limit or expiry of a key was changed.
    pub fn updated(&self, prefix: &str, owner: &str) {
        self.log("update", prefix, owner, None);
    }

    /// Logs that a key took the place of the key with the prefix `replaced`.
    pub fn rotated(&self, prefix: &str, owner: &str, replaced: &str) {
        self.log("rotate", prefix, owner, Some(replaced));
    }

    /// Logs the failure of a change if it may have happened all the same. `prefix` selected the key,
    /// unless it is new.
    pub fn failed(&self, action: &'static str, prefix: Option<&str>, error: &StoreError) {
        if !matches!(error, StoreError::Unconfirmed(_)) {
            return;
        }
        tracing::warn!(
            target: AUDIT,
            user = %self.user,
            via = self.via,
            action,
            prefix = prefix.map(tracing::field::display),
            "API key may have changed"
        );
    }

    fn log(&self, action: &'static str, prefix: &str, owner: &str, replaced: Option<&str>) {
        tracing::info!(
            target: AUDIT,
            user = %self.user,
            via = self.via,
            action,
            prefix = %prefix,
            owner = %owner,
            replaced = replaced.map(tracing::field::display),
            "API key changed"
        );
    }
}
