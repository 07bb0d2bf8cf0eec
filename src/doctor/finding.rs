//! What a check finds, with its remedy.

use std::fmt;

use serde::Serialize;

use crate::ops::error_chain;

/// How serious a finding is. The most serious one is the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Requests fail, or responses are wrong.
    Serious,
    /// The service works, but slower, less safely or only until something else fails.
    Warning,
    /// The check was left out.
    #[serde(rename = "not checked")]
    NotChecked,
    /// The check found nothing.
    Ok,
}

/// A finding, as a line for operators or as JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// How serious it is.
    pub severity: Severity,
    /// The name of the check.
    pub check: &'static str,
    /// What was found, or why nothing was checked; empty if nothing was found.
    pub message: String,
    /// What to do about it; empty if nothing was found.
    pub remedy: String,
}

impl Finding {
    pub(super) fn serious(check: &'static str, message: String, remedy: impl Into<String>) -> Self {
        Self { severity: Severity::Serious, check, message, remedy: remedy.into() }
    }

    pub(super) fn warning(check: &'static str, message: String, remedy: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, check, message, remedy: remedy.into() }
    }

    /// The check needs something that an earlier one found missing.
    pub(super) fn not_checked(check: &'static str, reason: &str) -> Self {
        let remedy = "Run doctor again once the serious findings are corrected.".to_owned();
        Self { severity: Severity::NotChecked, check, message: reason.to_owned(), remedy }
    }

    pub(super) fn ok(check: &'static str) -> Self {
        let [message, remedy] = [const { String::new() }; 2];
        Self { severity: Severity::Ok, check, message, remedy }
    }

    /// The check failed with an error.
    pub(super) fn failed(check: &'static str, error: &(dyn std::error::Error + 'static)) -> Self {
        let message = format!("the check failed: {}", error_chain(error));
        Self::serious(check, message, "Remove the cause of the error, then run doctor again.")
    }

    /// Whether it makes `doctor` fail.
    pub fn is_serious(&self) -> bool {
        self.severity == Severity::Serious
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { severity, check, message, remedy } = self;
        match severity {
            Severity::Serious => write!(f, "serious: {check}: {message}. {remedy}"),
            Severity::Warning => write!(f, "warning: {check}: {message}. {remedy}"),
            Severity::NotChecked => write!(f, "not checked: {check}"),
            Severity::Ok => write!(f, "ok: {check}"),
        }
    }
}
