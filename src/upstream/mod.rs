//! The registry that the service reads: an existing Postgres database, or a registry in memory. Both
//! pass the same behaviour tests.

mod catalogue;
pub mod change;
mod change_index;
mod change_log;
mod client;
mod client_state;
mod clock;
mod embedded;
mod embedded_keys;
mod error;
pub mod generate;
mod key_changes;
mod load_start;
mod poll_stats;
pub mod postgres;
mod read;
mod reads;
mod replication;
pub mod snapshot;
mod source;
mod standbys;

pub use catalogue::{Catalogue, CatalogueEvaluation, CatalogueGene};
pub use change::{Change, ChangeScope, Changes, DependsOn};
pub use change_log::ChangeLog;
pub use client::UpstreamClient;
pub use embedded::{Embedded, EmbeddedGene};
pub use embedded_keys::{EmbeddedKey, EmbeddedKeys, KeysByHash, Rotation};
pub use error::UpstreamError;
pub use key_changes::ChangedKeys;
pub use load_start::LoadStart;
pub use poll_stats::PollCounts;
pub use postgres::Postgres;
pub use read::{Read, ReadStamp};
pub use replication::Position;
pub use snapshot::Snapshot;
pub use source::{StandbySet, Upstream};
pub use standbys::StandbyState;
