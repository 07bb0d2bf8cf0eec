//! Streaming standbys of servers that the tests start.

use std::process::Command;
use std::time::Duration;

use tokio_postgres::Client;

use super::fake_clock::FakeClock;
use super::postgres::{PostgresOptions, PostgresServer, SUPERUSER};
use super::process::Signal;
use super::wait::eventually;

const TIMEOUT: Duration = Duration::from_secs(20);

/// A server that may have standbys.
pub(crate) async fn primary() -> PostgresServer {
    primary_with(Vec::new()).await
}

/// Like [`primary`], with environment variables.
pub(crate) async fn primary_with(env: Vec<(String, String)>) -> PostgresServer {
    PostgresServer::start(options(env)).await
}

fn options(env: Vec<(String, String)>) -> PostgresOptions {
    let conf = [
        "wal_retrieve_retry_interval = '100ms'",
        "recovery_target_timeline = 'latest'",
        // They count by the time of day, which tests step.
        "wal_sender_timeout = 0",
        "wal_receiver_timeout = 0",
    ];
    PostgresOptions {
        hba: vec!["host replication all 127.0.0.1/32 trust".to_owned()],
        conf: conf.map(str::to_owned).into(),
        env,
        ..PostgresOptions::default()
    }
}

impl PostgresServer {
    /// A standby that streams from this server, and has caught up.
    pub(crate) async fn start_standby(&self) -> Self {
        self.start_standby_through(self.port()).await
    }

    /// A standby that streams through a proxy on `port` in front of this server.
    pub(crate) async fn start_standby_through(&self, port: u16) -> Self {
        self.start_standby_with(port, Vec::new()).await
    }

    /// A standby with this wall clock.
    pub(crate) async fn start_standby_with_clock(&self, clock: &FakeClock) -> Self {
        self.start_standby_with(self.port(), clock.env().into()).await
    }

    /// Like [`start_standby_through`](Self::start_standby_through), with environment variables.
    pub(crate) async fn start_standby_with(&self, port: u16, env: Vec<(String, String)>) -> Self {
        let port = port.to_string();
        let standby = Self::start_from(options(env), |data| {
            let mut backup = Command::new(super::postgres::postgres_program("pg_basebackup"));
            backup.args(["-h", "127.0.0.1", "-p", &port, "-U", SUPERUSER, "-R", "-X", "stream"]);
            backup.args(["-c", "fast", "--no-sync", "--no-manifest", "-D"]).arg(data);
            backup
        })
        .await;
        self.wait_for_replay(&standby).await;
        standby
    }

    /// Waits until `standby` has replayed everything that this server has written so far.
    pub(crate) async fn wait_for_replay(&self, standby: &Self) {
        let sql = "select (pg_current_wal_flush_lsn() - '0/0')::int8";
        let written = number(&self.admin().await, sql).await;
        let admin = standby.admin().await;
        eventually(TIMEOUT, "the standby has caught up", || async {
            number(&admin, "select (pg_last_wal_replay_lsn() - '0/0')::int8").await >= written
        })
        .await;
    }

    /// The standby continues to receive, but replays nothing.
    pub(crate) async fn pause_replay(&self) {
        let admin = self.admin().await;
        admin.batch_execute("select pg_wal_replay_pause()").await.unwrap();
        eventually(TIMEOUT, "replay is paused", || async {
            let sql = "select pg_get_wal_replay_pause_state() = 'paused'";
            admin.query_one(sql, &[]).await.unwrap().get(0)
        })
        .await;
    }

    /// Ends a [`pause_replay`](Self::pause_replay).
    pub(crate) async fn resume_replay(&self) {
        self.admin().await.batch_execute("select pg_wal_replay_resume()").await.unwrap();
    }

    /// Makes the standby a primary, and waits until it is one.
    pub(crate) async fn promote(&self) {
        let sql = "select pg_promote(true, 60)";
        assert!(self.admin().await.query_one(sql, &[]).await.unwrap().get::<_, bool>(0));
    }

    /// Kills every process of the server.
    pub(crate) async fn kill(&self) {
        self.end_by(Signal::Kill).await;
    }
}

async fn number(client: &Client, sql: &str) -> i64 {
    client.query_one(sql, &[]).await.unwrap().get(0)
}
