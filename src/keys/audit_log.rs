//! The audit log: one line for each change of a key, at every level of the log.

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

    /// Logs that a key took the place of the key with the prefix `replaced`.
    pub fn rotated(&self, prefix: &str, owner: &str, replaced: &str) {
        self.log("rotate", prefix, owner, Some(replaced));
    }

    /// Escapes the texts, which may come from a database and be shown on a terminal.
    fn log(&self, action: &'static str, prefix: &str, owner: &str, replaced: Option<&str>) {
        tracing::info!(
            target: AUDIT,
            user = %self.user.escape_debug(),
            via = self.via,
            action,
            prefix = %prefix.escape_debug(),
            owner = %owner.escape_debug(),
            replaced = replaced.map(|prefix| tracing::field::display(prefix.escape_debug())),
            "API key changed"
        );
    }
}
