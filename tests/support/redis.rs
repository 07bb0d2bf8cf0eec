//! A real Redis, started by the tests, or the one that `TEST_REDIS_URL` names.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ::redis::aio::MultiplexedConnection;
use ::redis::{Client, FromRedisValue, RedisResult, cmd};
use futures_util::StreamExt;
use gene_registry::redis::Servers;
use tokio::sync::OnceCell;
use tokio_util::task::AbortOnDropHandle;

use super::process::{Launch, Process, Signal, find_program};
use super::replica::config;
use super::wait::{eventually, until};
use super::{external, free_port, random_hex, scratch_folder};

const START_TIMEOUT: Duration = Duration::from_secs(10);

/// For publications on a loaded machine.
const PUBLISHED_WITHIN: Duration = Duration::from_secs(20);

/// A Redis server. Dropping it ends it.
#[derive(Debug)]
pub(crate) struct RedisServer {
    kind: RedisOrigin,
}

#[derive(Debug)]
enum RedisOrigin {
    Own { folder: PathBuf, port: u16, args: Vec<String>, process: Mutex<Option<Process>> },
    External(String),
}

impl RedisServer {
    /// The server that all tests of this process share, each with a key prefix of its own. It is
    /// never stopped, stalled, reconfigured or flushed.
    pub(crate) async fn shared() -> &'static Self {
        static SHARED: OnceCell<RedisServer> = OnceCell::const_new();
        SHARED
            .get_or_init(|| async {
                match external("TEST_REDIS_URL") {
                    Some(url) => Self { kind: RedisOrigin::External(url) },
                    None => Self::start(&[]).await,
                }
            })
            .await
    }

    /// A server that the test may break. The arguments follow the harness's own, such as
    /// `["--maxmemory", "2mb"]`.
    pub(crate) async fn start(args: &[&str]) -> Self {
        let args = args.iter().map(|&arg| arg.to_owned()).collect();
        let (folder, port) = (scratch_folder("redis"), free_port());
        let server =
            Self { kind: RedisOrigin::Own { folder, port, args, process: Mutex::new(None) } };
        server.launch().await;
        server
    }

    /// `redis://…`
    pub(crate) fn url(&self) -> String {
        match &self.kind {
            RedisOrigin::Own { port, .. } => format!("redis://127.0.0.1:{port}/"),
            RedisOrigin::External(url) => url.clone(),
        }
    }

    /// The connection info for a pool.
    pub(crate) fn servers(&self) -> Servers {
        let config = config("", Some((&self.url(), "")));
        Servers::read(&config.redis).unwrap().unwrap()
    }

    /// `redis+unix://…`
    pub(crate) fn socket_url(&self) -> String {
        format!("redis+unix://{}", self.folder().join("redis.sock").display())
    }

    /// `host:port`, the target for a proxy.
    pub(crate) fn addr(&self) -> String {
        match &self.kind {
            RedisOrigin::Own { port, .. } => format!("127.0.0.1:{port}"),
            RedisOrigin::External(url) => {
                let url: reqwest::Url = url.parse().unwrap();
                format!("{}:{}", url.host_str().unwrap(), url.port().unwrap_or(6379))
            }
        }
    }

    /// The port on which it listens.
    pub(crate) fn port(&self) -> u16 {
        match &self.kind {
            RedisOrigin::Own { port, .. } => *port,
            RedisOrigin::External(_) => panic!("an external server"),
        }
    }

    /// The server's working folder, which contains its unix socket.
    pub(crate) fn folder(&self) -> &Path {
        match &self.kind {
            RedisOrigin::Own { folder, .. } => folder,
            RedisOrigin::External(_) => panic!("an external server"),
        }
    }

    /// A new key prefix: `redis.prefix` of a test's replicas.
    pub(crate) fn new_prefix() -> String {
        format!("gr-test-{}", random_hex(6))
    }

    /// Runs one command on a connection of its own.
    #[track_caller]
    pub(crate) fn command<T: FromRedisValue>(
        &self,
        words: &[&str],
    ) -> impl Future<Output = T> + use<T> {
        let caller = std::panic::Location::caller();
        let response = self.try_command(words);
        async move { response.await.unwrap_or_else(|error| panic!("{caller}: {error}")) }
    }

    /// Runs one command that may fail.
    pub(crate) fn try_command<T: FromRedisValue>(
        &self,
        words: &[&str],
    ) -> impl Future<Output = RedisResult<T>> + use<T> {
        let client = self.client();
        let mut command = cmd(words[0]);
        command.arg(&words[1..]);
        async move {
            let mut connection = client.get_multiplexed_async_connection().await?;
            command.query_async(&mut connection).await
        }
    }

    /// A connection that fails when the server does.
    pub(crate) async fn connect(&self) -> RedisResult<MultiplexedConnection> {
        self.client().get_multiplexed_async_connection().await
    }

    /// Every key that begins with `prefix`, sorted.
    pub(crate) async fn keys(&self, prefix: &str) -> Vec<String> {
        let pattern = format!("{prefix}*");
        let mut keys = Vec::new();
        let mut cursor = "0".to_owned();
        loop {
            let words = ["SCAN", &cursor, "MATCH", &pattern, "COUNT", "1000"];
            let (next, mut page): (String, Vec<String>) = self.command(&words).await;
            keys.append(&mut page);
            if next == "0" {
                break;
            }
            cursor = next;
        }
        keys.sort();
        keys.dedup();
        keys
    }

    /// Waits until all with this prefix have published what they have read, which ends their leases.
    pub(crate) async fn published(&self, prefix: &str) {
        let leases = format!("{prefix}:lease");
        let is_done = || async { self.keys(&leases).await.is_empty() };
        eventually(PUBLISHED_WITHIN, "everything is published", is_done).await;
    }

    /// Records every command that the server runs from now on.
    pub(crate) async fn monitor(&self) -> Monitor {
        let monitor = self.client().get_async_monitor().await.unwrap();
        let lines = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&lines);
        let task = tokio::spawn(async move {
            let mut messages = Box::pin(monitor.into_on_message::<String>());
            while let Some(line) = messages.next().await {
                sink.lock().unwrap().push(line);
            }
        });
        Monitor { lines, _task: AbortOnDropHandle::new(task) }
    }

    /// Suspends the server, so that it hangs with its sockets open.
    pub(crate) fn pause(&self) {
        self.with_process(|process| process.signal_tree(Signal::Stop));
    }

    /// Ends a [`pause`](Self::pause).
    pub(crate) fn resume(&self) {
        self.with_process(|process| process.signal_tree(Signal::Cont));
    }

    /// Kills the server, and waits until it has ended.
    pub(crate) async fn kill(&self) {
        let Some(process) = self.own().take() else { return };
        process.signal_tree(Signal::Kill);
        process.wait_exit(Duration::from_secs(10)).await;
    }

    /// Kills the server if it runs, and starts it again: same port, and without data unless its
    /// arguments make it persistent.
    pub(crate) async fn restart(&self) {
        self.kill().await;
        self.launch().await;
    }

    async fn launch(&self) {
        let RedisOrigin::Own { folder, port, args, .. } = &self.kind else {
            panic!("an external server is not touched");
        };
        let process = Launch::new("redis-server", find_program("redis-server"))
            .args(["--bind", "127.0.0.1", "--port", &port.to_string()])
            .args(["--save", "", "--appendonly", "no", "--daemonize", "no"])
            .args(["--unixsocket", &folder.join("redis.sock").display().to_string()])
            .arg("--dir")
            .arg(folder)
            .args(args)
            .start();
        until(START_TIMEOUT, "Redis responds", || async {
            assert!(process.is_running(), "Redis did not start: {}", process.report());
            let response = self.try_command::<String>(&["PING"]).await;
            // With a password set, a refusal shows that the server runs.
            let refused = |error: &super::RedisError| error.code() == Some("NOAUTH");
            response.map_or_else(|error| refused(&error).then_some(()), |_| Some(()))
        })
        .await;
        *self.own() = Some(process);
    }

    fn client(&self) -> Client {
        Client::open(self.url()).unwrap()
    }

    fn own(&self) -> MutexGuard<'_, Option<Process>> {
        match &self.kind {
            RedisOrigin::Own { process, .. } => {
                process.lock().unwrap_or_else(PoisonError::into_inner)
            }
            RedisOrigin::External(_) => panic!("an external server is not touched"),
        }
    }

    fn with_process(&self, act: impl FnOnce(&Process)) {
        if let Some(process) = &*self.own() {
            act(process);
        }
    }
}

/// The commands that a server has run since [`RedisServer::monitor`].
#[derive(Debug)]
pub(crate) struct Monitor {
    lines: Arc<Mutex<Vec<String>>>,
    _task: AbortOnDropHandle<()>,
}

impl Monitor {
    /// The lines so far, as MONITOR prints them.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.lines.lock().unwrap().clone()
    }

    /// The lines so far that contain `text`.
    pub(crate) fn lines_with(&self, text: &str) -> Vec<String> {
        let mut lines = self.lines();
        lines.retain(|line| line.contains(text));
        lines
    }
}
