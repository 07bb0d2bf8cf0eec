//! The error of callers that wait for a task which ends without a result.

use thiserror::Error;

/// The task that worked for this caller panicked, or was dropped by a runtime that is shutting
/// down. The panic itself has been reported where it happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the task that worked on this request panicked")]
pub struct TaskPanicked;
