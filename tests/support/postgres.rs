//! A real Postgres, started by the tests, or the one that `TEST_DATABASE_URL` names.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::OnceCell;
use tokio_postgres::{Client, NoTls};

use super::postgres_folder::{configure, run, template_folder};
use super::process::{Launch, Process, Signal, give_to_account, is_alive, run_as_account, tree};
use super::wait::{eventually, until};
use super::{external, free_port, scratch_folder};

pub(crate) use super::postgres_folder::{PostgresOptions, postgres_program};

/// The superuser of servers that the tests start.
pub(crate) const SUPERUSER: &str = "postgres";

const START_TIMEOUT: Duration = Duration::from_secs(30);

/// A Postgres server. Dropping it ends it.
#[derive(Debug)]
pub(crate) struct PostgresServer {
    kind: PostgresOrigin,
    pub(super) templates: super::database::Templates,
    shared: bool,
}

#[derive(Debug)]
enum PostgresOrigin {
    Own { folder: PathBuf, port: u16, env: Vec<(String, String)>, process: Mutex<Option<Process>> },
    External(Box<reqwest::Url>),
}

impl PostgresServer {
    /// The server that all tests of this process share, each with a database of its own. It is
    /// never stopped, stalled or reconfigured.
    pub(crate) async fn shared() -> &'static Self {
        static SHARED: OnceCell<PostgresServer> = OnceCell::const_new();
        SHARED
            .get_or_init(|| async {
                let mut server = match external("TEST_DATABASE_URL") {
                    Some(url) => {
                        Self::with_kind(PostgresOrigin::External(Box::new(url.parse().unwrap())))
                    }
                    None => Self::start(PostgresOptions::default()).await,
                };
                server.shared = true;
                server
            })
            .await
    }

    /// A server that the test may break.
    pub(crate) async fn start(options: PostgresOptions) -> Self {
        let template = template_folder().await;
        let copy = |data: &Path| {
            let mut copy = Command::new("cp");
            copy.arg("-a").arg(template).arg(data);
            copy
        };
        Self::start_from(options, copy).await
    }

    /// A server with the data folder that the command of `make` creates.
    pub(super) async fn start_from(
        options: PostgresOptions,
        make: impl FnOnce(&Path) -> Command,
    ) -> Self {
        let folder = scratch_folder("postgres");
        give_to_account(&folder);
        let port = free_port();
        let mut make = make(&folder.join("data"));
        run_as_account(&mut make);
        run(&mut make);
        configure(&folder, port, &options);
        let (env, process) = (options.env, Mutex::new(None));
        let server = Self::with_kind(PostgresOrigin::Own { folder, port, env, process });
        server.launch().await;
        server
    }

    fn with_kind(kind: PostgresOrigin) -> Self {
        Self { kind, templates: Default::default(), shared: false }
    }

    /// `postgres://…` for a database and a user, over TCP. For an external server, the URL logs in
    /// as that server's user, which then assumes the given role.
    pub(crate) fn url(&self, database: &str, user: &str) -> String {
        match &self.kind {
            PostgresOrigin::Own { port, .. } => {
                format!("postgres://{user}@127.0.0.1:{port}/{database}")
            }
            PostgresOrigin::External(url) => {
                let mut url = url.as_ref().clone();
                url.set_path(database);
                if user != self.superuser() {
                    // Not `query_pairs_mut`: the client does not read `+` as a space.
                    let role = format!("options=-c%20role%3D{user}");
                    let query = url.query().map(|query| format!("{query}&{role}"));
                    url.set_query(Some(&query.unwrap_or(role)));
                }
                url.to_string()
            }
        }
    }

    /// `postgres://…` for a database and a user, over the server's unix socket.
    pub(crate) fn socket_url(&self, database: &str, user: &str) -> String {
        let folder = self.folder().display().to_string().replace('/', "%2F");
        format!("postgres://{user}@{folder}:{}/{database}", self.port())
    }

    /// The name of the superuser.
    pub(crate) fn superuser(&self) -> String {
        match &self.kind {
            PostgresOrigin::Own { .. } => SUPERUSER.to_owned(),
            PostgresOrigin::External(url) => url.username().to_owned(),
        }
    }

    /// `host:port`, the target for a proxy.
    pub(crate) fn addr(&self) -> String {
        match &self.kind {
            PostgresOrigin::Own { port, .. } => format!("127.0.0.1:{port}"),
            PostgresOrigin::External(url) => {
                format!("{}:{}", url.host_str().unwrap(), url.port().unwrap_or(5432))
            }
        }
    }

    pub(crate) fn port(&self) -> u16 {
        match &self.kind {
            PostgresOrigin::Own { port, .. } => *port,
            PostgresOrigin::External(_) => panic!("an external server"),
        }
    }

    /// The folder of the unix socket and the data folder.
    pub(crate) fn folder(&self) -> &Path {
        match &self.kind {
            PostgresOrigin::Own { folder, .. } => folder,
            PostgresOrigin::External(_) => panic!("an external server"),
        }
    }

    pub(super) const fn is_shared(&self) -> bool {
        self.shared
    }

    /// A connection as the superuser, to the maintenance database.
    pub(crate) async fn admin(&self) -> Client {
        let database = match &self.kind {
            PostgresOrigin::Own { .. } => "postgres",
            PostgresOrigin::External(url) => url.path().trim_start_matches('/'),
        };
        connect(&self.url(database, &self.superuser())).await
    }

    /// Suspends every process of the server, so that it hangs with its sockets open.
    pub(crate) fn pause(&self) {
        self.with_process(|process| process.signal_tree(Signal::Stop));
    }

    /// Ends a [`pause`](Self::pause).
    pub(crate) fn resume(&self) {
        self.with_process(|process| process.signal_tree(Signal::Cont));
    }

    /// Ends the server at once, without a checkpoint, and waits until it has ended.
    pub(crate) async fn stop_immediate(&self) {
        self.end_by(Signal::Quit).await;
    }

    pub(super) async fn end_by(&self, signal: Signal) {
        let Some(process) = self.own().take() else { return };
        let all = tree(process.pid());
        match signal {
            Signal::Kill => process.signal_tree(signal),
            _ => process.signal(signal),
        }
        process.signal_tree(Signal::Cont);
        process.wait_exit(Duration::from_secs(10)).await;
        eventually(Duration::from_secs(10), "the backends have ended", || async {
            !all.iter().any(|pid| is_alive(*pid))
        })
        .await;
    }

    /// Ends the server at once if it runs, and starts it again: same port, same data.
    pub(crate) async fn restart(&self) {
        self.stop_immediate().await;
        self.launch().await;
    }

    /// Terminates every connection to a database; returns how many there were.
    pub(crate) async fn terminate_backends(&self, database: &str) -> usize {
        let sql = "select pg_terminate_backend(pid) from pg_stat_activity \
                   where datname = $1 and pid <> pg_backend_pid()";
        self.admin().await.query(sql, &[&database]).await.unwrap().len()
    }

    /// The server's log since its last start.
    pub(crate) fn log(&self) -> String {
        let mut log = String::new();
        self.with_process(|process| log = process.stderr());
        log
    }

    async fn launch(&self) {
        let PostgresOrigin::Own { env, .. } = &self.kind else {
            panic!("an external server is not touched");
        };
        let mut launch = Launch::new("postgres-server", postgres_program("postgres"))
            .arg("-D")
            .arg(self.folder().join("data"))
            .unprivileged();
        for (name, value) in env {
            launch = launch.env(name, value);
        }
        let process = launch.start();
        let url = self.url("postgres", SUPERUSER);
        let url = url.as_str();
        until(START_TIMEOUT, "Postgres responds", || async {
            assert!(process.is_running(), "Postgres did not start: {}", process.report());
            let (client, connection) = tokio_postgres::connect(url, NoTls).await.ok()?;
            tokio::spawn(connection);
            client.simple_query("select 1").await.ok()
        })
        .await;
        *self.own() = Some(process);
    }

    fn own(&self) -> std::sync::MutexGuard<'_, Option<Process>> {
        match &self.kind {
            PostgresOrigin::Own { process, .. } => {
                process.lock().unwrap_or_else(PoisonError::into_inner)
            }
            PostgresOrigin::External(_) => panic!("an external server is not touched"),
        }
    }

    fn with_process(&self, act: impl FnOnce(&Process)) {
        if let Some(process) = &*self.own() {
            act(process);
        }
    }
}

impl Drop for PostgresServer {
    fn drop(&mut self) {
        if matches!(self.kind, PostgresOrigin::External(_)) {
            return;
        }
        if let Some(process) = self.own().take() {
            // SIGQUIT first, so that it releases its shared memory; then SIGKILL.
            process.signal(Signal::Quit);
            process.signal_tree(Signal::Cont);
            for _ in 0..200 {
                if !process.is_running() {
                    break;
                }
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        // Ignored: the folder is removed with the test process at the latest.
        drop(std::fs::remove_dir_all(self.folder()));
    }
}

/// A connection without TLS, driven in the background.
pub(crate) async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}
