//! The result of a read through the caches, and its errors.

use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;

use super::entry::Entry;
use crate::registry::GenePage;
use crate::sync::TaskPanicked;
use crate::upstream::{Read, UpstreamError};

/// Why a read has no result.
#[derive(Debug, Clone, Error)]
pub enum ReadError {
    /// The gene or domain does not exist.
    #[error("not found")]
    NotFound,
    /// The upstream failed, and no cached entry may be served instead.
    #[error("the registry cannot be read")]
    Upstream(#[source] Arc<UpstreamError>),
    /// The read was shed, or failed though the database answers, and no cached entry may be served
    /// instead.
    #[error("the registry is too busy")]
    Overloaded,
    /// The task that loaded the entry panicked.
    #[error(transparent)]
    Crashed(#[from] TaskPanicked),
}

impl From<UpstreamError> for ReadError {
    fn from(error: UpstreamError) -> Self {
        Self::Upstream(Arc::new(error))
    }
}

/// An entry and where it was found.
pub(super) type EntryResult = Result<(Arc<Entry>, Source), ReadError>;

/// The counts of a filter, and the page that was read with them.
#[derive(Debug, Clone)]
pub(super) struct Counted {
    pub(super) counts: Arc<Entry>,
    pub(super) page: Option<Arc<Read<GenePage>>>,
}

/// The counts of a filter, or why they are unknown.
pub(super) type CountedResult = Result<Counted, ReadError>;

/// An entry, and how it was found.
#[derive(Debug, Clone)]
pub struct CacheReply {
    /// The entry.
    pub entry: Arc<Entry>,
    /// Where it was found.
    pub source: Source,
    /// Time since it was read from the upstream.
    pub age: Duration,
    /// The age up to which it is fresh.
    pub fresh: Duration,
}

/// Where an entry was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// In this process.
    Local,
    /// In Redis.
    Shared,
    /// In this process. Whether it has changed in the last seconds is unknown.
    Unconfirmed,
    /// It was read from the upstream.
    Upstream {
        /// Whether a concurrent request for the same entry started the read.
        collapsed: bool,
    },
    /// A stale entry, because the upstream failed.
    StaleIfError,
    /// A stale entry, because the read was shed.
    StaleIfBusy,
}

impl Source {
    /// The word for it in logs and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Shared => "shared",
            Self::Unconfirmed => "unconfirmed",
            Self::Upstream { collapsed: false } => "miss",
            Self::Upstream { collapsed: true } => "collapsed",
            Self::StaleIfError => "stale-if-error",
            Self::StaleIfBusy => "stale-if-busy",
        }
    }
}
