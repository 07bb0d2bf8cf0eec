//! PgBouncer in transaction mode before a Postgres server.

use std::path::PathBuf;
use std::time::Duration;

use tokio_postgres::NoTls;

use super::postgres::{PostgresServer, SUPERUSER};
use super::process::{Launch, Process, Signal, find_program, give_to_account};
use super::wait::{eventually, until};
use super::{free_port, scratch_folder};

const START_TIMEOUT: Duration = Duration::from_secs(10);

/// The users that may connect without a password.
const USERS: [&str; 4] =
    [SUPERUSER, "gene_registry_reader", "gene_registry_usage", "gene_registry_keys"];

/// A PgBouncer process. Dropping it ends it.
#[derive(Debug)]
pub(crate) struct PgBouncer {
    process: Process,
    port: u16,
    _folder: PathBuf,
}

impl PgBouncer {
    /// Starts it with further lines for its `[pgbouncer]` section.
    pub(crate) async fn start(server: &PostgresServer, lines: &[&str]) -> Self {
        let folder = scratch_folder("pgbouncer");
        let port = free_port();
        let users = folder.join("users.txt");
        let list: String = USERS.iter().map(|user| format!("\"{user}\" \"\"\n")).collect();
        std::fs::write(&users, list).unwrap();
        let (users, socket) = (users.display(), folder.display());
        let (host, server_port) = ("127.0.0.1", server.port());
        let conf = folder.join("pgbouncer.ini");
        let mut text = include_str!("../../config/proxies/pgbouncer.ini").to_owned();
        for (shipped, own) in [
            ("registry = host=127.0.0.1 port=5432", format!("* = host={host} port={server_port}")),
            ("listen_port = 6432", format!("listen_port = {port}")),
            ("auth_type = scram-sha-256", "auth_type = trust".to_owned()),
            ("/etc/pgbouncer/users.txt", users.to_string()),
        ] {
            assert!(text.contains(shipped), "{shipped}");
            text = text.replace(shipped, &own);
        }
        // The last one of two settings is in effect.
        text += &format!("unix_socket_dir = {socket}\nadmin_users = {SUPERUSER}\n");
        text += &lines.join("\n");
        std::fs::write(&conf, text).unwrap();
        give_to_account(&folder);
        // It refuses to run as root.
        let process =
            Launch::new("pgbouncer", find_program("pgbouncer")).arg(&conf).unprivileged().start();
        let bouncer = Self { process, port, _folder: folder };
        until(START_TIMEOUT, "PgBouncer responds", || async {
            let process = &bouncer.process;
            assert!(process.is_running(), "PgBouncer did not start: {}", process.report());
            let url = bouncer.url("postgres", SUPERUSER);
            let (client, connection) = tokio_postgres::connect(&url, NoTls).await.ok()?;
            tokio::spawn(connection);
            client.simple_query("select 1").await.ok()
        })
        .await;
        bouncer
    }

    /// `postgres://…` for a database and a user, through PgBouncer.
    pub(crate) fn url(&self, database: &str, user: &str) -> String {
        format!("postgres://{user}@127.0.0.1:{}/{database}", self.port)
    }

    /// Makes it reload its settings, and waits until it has.
    pub(crate) async fn reload(&self) {
        let reloads = || self.process.stderr().matches("re-reading config").count();
        let before = reloads();
        self.process.signal(Signal::Hup);
        eventually(START_TIMEOUT, "PgBouncer has reloaded its settings", || async {
            reloads() > before
        })
        .await;
    }
}
