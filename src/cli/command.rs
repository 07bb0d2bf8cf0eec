//! The results of commands: an exit status, or an error to show.

use std::process::ExitCode;

/// The exit status of a usage error: nothing was changed.
pub(super) const USAGE_ERROR: u8 = 2;

/// Why a command failed.
pub(super) type CommandError = Box<dyn std::error::Error + Send + Sync>;

/// A command's exit status, or an error to show.
pub(super) type CommandResult = Result<ExitCode, CommandError>;

/// The command was given wrong or ambiguous arguments and changed nothing. The text holds no
/// secret, not even one that was typed by mistake.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct UsageError(String);

impl UsageError {
    pub(super) fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

/// Runs a command's asynchronous part.
pub(super) fn block_on<F: Future<Output = CommandResult>>(work: F) -> CommandResult {
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(work)
}
