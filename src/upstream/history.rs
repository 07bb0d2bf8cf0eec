//! Which database a read saw: the run of one server, and the history that it continues.

use data_encoding::HEXLOWER;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::snapshot::Snapshot;
use crate::registry::Timestamp;

/// The run of one server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ServerRun {
    /// When it started, in microseconds since the Unix epoch by its own clock.
    pub started_at: i64,
    /// Whether it is a standby.
    pub is_standby: bool,
}

/// One history of a database: what is committed in it stays committed. A promotion, a restore or a
/// restart of the primary begins another. What a server does not tell is `None`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct History {
    /// The system identifier of the cluster.
    pub cluster: Option<i64>,
    /// The OID of the database.
    pub database: u32,
    /// The timeline that the primary writes; on a standby, the one that its control file names.
    pub timeline: Option<u32>,
    /// When the primary started (see [`ServerRun::started_at`]).
    pub started_at: i64,
}

/// The replication position of a server.
#[derive(Debug, Clone, PartialEq)]
pub struct Position {
    /// The server's time.
    pub read_at: Timestamp,
    /// The server; `None` if the upstream has none.
    pub server: Option<ServerRun>,
    /// Its snapshot; on a standby, the part that is reliable.
    pub snapshot: Snapshot,
    /// The history, as far as the server knows it.
    pub history: History,
    /// Bytes of its write-ahead log, inserted or, on a standby, replayed. They include all that the
    /// snapshot sees. `None` if the server does not tell.
    pub wal: Option<u64>,
}

impl Position {
    /// The position of an upstream without servers and replication.
    pub fn without_server(read_at: Timestamp) -> Self {
        let history = History { cluster: None, database: 0, timeline: None, started_at: 0 };
        Self { read_at, server: None, snapshot: Snapshot::before(0), history, wal: None }
    }
}

impl History {
    /// A short name of it for keys in Redis: the start of its hash, in hexadecimal.
    pub fn id(&self) -> String {
        HEXLOWER.encode(&Sha256::digest(format!("{self:?}"))[..8])
    }

    /// Whether a standby at this position is known to have replayed a part of this history.
    pub fn is_proven_by(&self, standby: &Self) -> bool {
        let known = |history: &Self| history.cluster.zip(history.timeline);
        self.database == standby.database && known(self).is_some() && known(self) == known(standby)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HISTORY: History =
        History { cluster: Some(-7), database: 5, timeline: Some(2), started_at: 1_000 };

    #[test]
    fn parsing_restores_what_was_written() {
        for history in [HISTORY, History { cluster: None, timeline: None, ..HISTORY }] {
            let text = serde_json::to_string(&history).expect("JSON");
            assert_eq!(serde_json::from_str::<History>(&text).ok(), Some(history));
        }
    }

    #[test]
    fn each_part_makes_another_history() {
        let others = [
            History { cluster: Some(8), ..HISTORY },
            History { database: 6, ..HISTORY },
            History { timeline: Some(3), ..HISTORY },
            History { started_at: 1_001, ..HISTORY },
        ];
        assert!(others.iter().all(|other| other.id() != HISTORY.id()));
    }

    #[test]
    fn a_standby_proves_itself_by_cluster_database_and_timeline() {
        assert!(HISTORY.is_proven_by(&History { started_at: 9, ..HISTORY }));
        assert!(!HISTORY.is_proven_by(&History { timeline: Some(1), ..HISTORY }));
        assert!(!HISTORY.is_proven_by(&History { cluster: Some(8), ..HISTORY }));
        let unknown = History { cluster: None, ..HISTORY };
        assert!(!unknown.is_proven_by(&unknown));
    }
}
