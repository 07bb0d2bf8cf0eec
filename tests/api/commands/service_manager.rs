//! `serve` under a service manager: this test is the other end of `NOTIFY_SOCKET`.

use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::time::{Duration, Instant};

use super::{TIMEOUT, gene_registry};
use crate::support::postgres::PostgresServer;
use crate::support::process::{Launch, Process, Signal};
use crate::support::replica::{READER, sample};
use crate::support::scratch_folder;
use crate::support::wait::eventually;

/// The socket of a service manager.
struct Manager {
    socket: UnixDatagram,
    path: String,
}

impl Manager {
    fn new() -> Self {
        let path = scratch_folder("notify").join("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        socket.set_read_timeout(Some(TIMEOUT)).unwrap();
        Self { socket, path: path.to_str().unwrap().to_owned() }
    }

    fn serve(&self, database_url: &str) -> Launch {
        gene_registry(["serve"])
            .env("DATABASE_URL", database_url)
            .env("GENE_REGISTRY__SERVER__BIND", "127.0.0.1:0")
            .env("GENE_REGISTRY__SERVER__DRAIN_MS", "0")
            .env("GENE_REGISTRY__OPS__BIND", "127.0.0.1:0")
            .env("NOTIFY_SOCKET", &self.path)
    }

    /// The next message.
    fn message(&self, process: &Process) -> String {
        let mut buffer = [0; 256];
        let length = self.socket.recv(&mut buffer);
        let length = length.unwrap_or_else(|error| panic!("{error}: {}", process.report()));
        String::from_utf8(buffer[..length].to_vec()).unwrap()
    }

    /// The next message, if it is there within this time.
    fn message_within(&self, time: Duration) -> Option<String> {
        self.socket.set_read_timeout(Some(time)).unwrap();
        let mut buffer = [0; 256];
        let length = self.socket.recv(&mut buffer).ok();
        self.socket.set_read_timeout(Some(TIMEOUT)).unwrap();
        length.map(|length| String::from_utf8(buffer[..length].to_vec()).unwrap())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_manager_is_told_when_the_replica_is_ready_and_when_it_stops() {
    let database = sample(PostgresServer::shared().await).await;
    let manager = Manager::new();
    let process = manager.serve(&database.url_as(READER)).start();
    assert_eq!(manager.message(&process), "READY=1\n");
    process.signal(Signal::Term);
    assert_eq!(manager.message(&process), "STOPPING=1\n");
    assert_eq!(process.wait_exit(TIMEOUT).await.code(), Some(0), "{}", process.report());
}

/// The database refuses the login, so `/readyz` fails.
#[tokio::test(flavor = "multi_thread")]
async fn a_replica_that_listens_but_is_not_ready_does_not_report_that_it_is() {
    let database = sample(PostgresServer::shared().await).await;
    let manager = Manager::new();
    let file = scratch_folder("ready").join("ready.json");
    let serve = manager.serve(&database.url_as("nobody"));
    let process = serve.arg("--ready-file").arg(&file).env("WATCHDOG_USEC", "200000").start();
    eventually(TIMEOUT, "the replica listens", || async { Path::new(&file).exists() }).await;
    for _ in 0..30 {
        assert_eq!(manager.message(&process), "WATCHDOG=1\n");
    }
    process.signal(Signal::Term);
    assert_eq!(process.wait_exit(TIMEOUT).await.code(), Some(0), "{}", process.report());
    let rest = std::iter::from_fn(|| manager.message_within(Duration::from_millis(1)));
    assert!(rest.collect::<String>().ends_with("STOPPING=1\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_watchdog_is_fed_twice_an_interval_until_the_process_hangs() {
    let database = sample(PostgresServer::shared().await).await;
    let manager = Manager::new();
    let process = manager.serve(&database.url_as(READER)).env("WATCHDOG_USEC", "1000000").start();
    let (begun, mut fed) = (Instant::now(), 0);
    while fed < 6 {
        fed += usize::from(manager.message(&process) == "WATCHDOG=1\n");
    }
    assert!(begun.elapsed() >= Duration::from_millis(2400), "{:?}", begun.elapsed());

    process.signal(Signal::Stop);
    while manager.message_within(Duration::from_secs(2)).is_some() {}
    process.signal(Signal::Cont);
    assert_eq!(manager.message(&process), "WATCHDOG=1\n");
}

/// The watchdog of another process, such as the shell that has started this one, and an interval of 0
/// (off).
#[tokio::test(flavor = "multi_thread")]
async fn no_watchdog_is_fed_that_is_not_set_for_this_process() {
    let database = sample(PostgresServer::shared().await).await;
    for (name, value) in [("WATCHDOG_PID", "1"), ("WATCHDOG_USEC", "0")] {
        let manager = Manager::new();
        let serve = manager.serve(&database.url_as(READER)).env("WATCHDOG_USEC", "200000");
        let process = serve.env(name, value).start();
        assert_eq!(manager.message(&process), "READY=1\n");
        assert_eq!(manager.message_within(Duration::from_secs(1)), None, "{name}={value}");
    }
}

/// It does not read, so its queue fills.
#[tokio::test(flavor = "multi_thread")]
async fn a_service_manager_that_hangs_does_not_delay_the_end() {
    let database = sample(PostgresServer::shared().await).await;
    let manager = Manager::new();
    let sender = UnixDatagram::unbound().unwrap();
    sender.set_nonblocking(true).unwrap();
    while sender.send_to(b"X=1", &manager.path).is_ok() {}
    let file = scratch_folder("ready").join("ready.json");
    let serve = manager.serve(&database.url_as(READER)).arg("--ready-file").arg(&file);
    let process = serve.env("WATCHDOG_USEC", "100000").start();
    eventually(TIMEOUT, "the replica listens", || async { Path::new(&file).exists() }).await;
    process.signal(Signal::Term);
    assert_eq!(process.wait_exit(TIMEOUT).await.code(), Some(0), "{}", process.report());
}
