//! The registry that the service reads: an existing Postgres database, or a registry in memory. Both
//! pass the same behaviour tests.

pub mod change;
mod change_index;
mod change_log;
mod client;
mod clock;
mod embedded;
mod embedded_keys;
mod error;
mod history;
mod key_changes;
mod poll_stats;
mod poller;
pub mod postgres;
mod read;
mod reads;
mod replication;
pub mod snapshot;
mod source;
mod standbys;

pub use change::{Change, ChangeScope, Changes, DependsOn};
pub use change_log::{ChangeLog, Currency, ReadStart};
pub use client::UpstreamClient;
pub use clock::BootInstant;
pub use embedded::{Embedded, EmbeddedGene};
pub use embedded_keys::{EmbeddedKey, EmbeddedKeys, KeysByHash, Rotation};
pub use error::UpstreamError;
pub use history::{History, Position, ServerRun};
pub use key_changes::ChangedKeys;
pub use poll_stats::PollStats;
pub use poller::ChangePoller;
pub use postgres::Postgres;
pub use read::{Read, ReadOrder, ReadStamp};
pub use snapshot::Snapshot;
pub use source::{ChangeFeed, RegistryReader, StandbySet, Upstream};
pub use standbys::StandbyState;
