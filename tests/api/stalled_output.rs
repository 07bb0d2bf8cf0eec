//! Standard output and standard error are pipes that nobody reads: neither requests nor probes nor
//! the shutdown wait for them.

use std::io::PipeReader;
use std::time::Duration;

use reqwest::Method;

use crate::commands::gene_registry;
use crate::support::binary::ReplicaProcess;
use crate::support::free_port;
use crate::support::pipes::{full_pipe, read_until};
use crate::support::postgres::PostgresServer;
use crate::support::process::{Process, Signal};
use crate::support::replica::{READER, Replica, Response, sample};
use crate::support::wait::{eventually, until};

const REQUESTS: usize = 3_000;

const DROPPED: &str = "gene_registry_log_lines_dropped_total";

/// The maximum duration of a response on a loaded machine.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(20);

/// The default `server.drain_ms` and `server.grace_ms`, and two seconds.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(12);

const START_TIMEOUT: Duration = Duration::from_secs(30);

async fn response_in_time(what: &str, request: impl Future<Output = Response>) -> Response {
    let response = tokio::time::timeout(RESPONSE_TIMEOUT, request).await;
    response.unwrap_or_else(|_| panic!("no response within {RESPONSE_TIMEOUT:?}: {what}"))
}

/// Sends many requests, then queries the operations listener.
async fn serves_all_the_same(replica: &Replica, key: &str) {
    for number in 1..=REQUESTS {
        let what = format!("request {number}");
        let response = response_in_time(&what, replica.get("/genes?limit=1", Some(key))).await;
        assert_eq!(response.status, 200, "{what}");
    }
    for path in ["/livez", "/readyz", "/metrics"] {
        assert_eq!(response_in_time(path, replica.ops(path)).await.status, 200, "{path}");
    }
    assert!(replica.metric(DROPPED).await.unwrap() > 0.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn serve_responds_and_ends_while_nobody_reads_its_log() {
    let database = sample(PostgresServer::shared().await).await;
    let key = database.new_key(1_000_000).await;
    let (_reader, target) = std::io::pipe().unwrap();
    let url = database.url_as(READER);
    let process = ReplicaProcess::start_writing_to(target.into(), &[("DATABASE_URL", &url)]).await;
    let ready = "the replica is ready";
    eventually(START_TIMEOUT, ready, async || process.replica.ops("/readyz").await.status == 200)
        .await;

    serves_all_the_same(&process.replica, &key).await;

    let status = process.terminated_within(SHUTDOWN_TIMEOUT).await.expect("the process ends");
    assert_eq!(status.code(), Some(0));
}

/// The demo on free ports, with requests logged.
struct StalledDemo {
    process: Process,
    replica: Replica,
}

impl StalledDemo {
    fn start(target: std::os::fd::OwnedFd) -> Self {
        let [public, ops, control] = [(); 3].map(|()| format!("127.0.0.1:{}", free_port()));
        let launch = gene_registry(["demo"])
            .env("GENE_REGISTRY__SERVER__BIND", &public)
            .env("GENE_REGISTRY__OPS__BIND", &ops)
            .env("GENE_REGISTRY__CONTROL__BIND", &control)
            .env("GENE_REGISTRY__LOG__LEVEL", "info")
            // An ignored setting, which is reported on standard error before anything listens.
            .env("REDIS_URL", "redis://127.0.0.1:1")
            .stdout_to(target.try_clone().unwrap());
        let process = launch.stderr_to(target).start();
        let (base, ops) = (format!("http://{public}/v1"), format!("http://{ops}"));
        Self { process, replica: Replica::external(&base, &ops, None) }
    }

    async fn is_ready(&self) {
        let client = reqwest::Client::new();
        until(START_TIMEOUT, "the demo is ready", || async {
            assert!(self.process.is_running());
            let readyz = client.request(Method::GET, format!("{}/readyz", self.replica.ops));
            readyz.send().await.ok().filter(|response| response.status() == 200)
        })
        .await;
    }

    async fn ends(&self) {
        self.process.signal(Signal::Term);
        let status = self.process.exited_within(SHUTDOWN_TIMEOUT).await.expect("the process ends");
        assert_eq!(status.code(), Some(0));
    }
}

/// Reads the demo's start-up output in a thread that ends with it.
async fn printed(mut reader: PipeReader) -> (String, PipeReader) {
    let read = tokio::task::spawn_blocking(move || {
        let text = read_until(&mut reader, "Ctrl-C");
        (text, reader)
    });
    read.await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_demo_responds_and_ends_while_nobody_reads_past_its_keys() {
    let (reader, target) = std::io::pipe().unwrap();
    let demo = StalledDemo::start(target.into());
    let (text, _reader) = printed(reader).await;
    let key = text.lines().find_map(|line| line.strip_prefix("API key:")).unwrap().trim();
    demo.is_ready().await;
    serves_all_the_same(&demo.replica, key).await;
    demo.ends().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_demo_responds_and_ends_with_full_outputs() {
    let (_reader, target) = full_pipe();
    let demo = StalledDemo::start(target);
    demo.is_ready().await;
    for path in ["/livez", "/readyz", "/metrics"] {
        assert_eq!(response_in_time(path, demo.replica.ops(path)).await.status, 200, "{path}");
    }
    demo.ends().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn serve_that_cannot_start_ends_with_full_outputs() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let (_reader, target) = full_pipe();
    let launch = gene_registry(["serve"])
        .env("DATABASE_URL", "postgres://127.0.0.1:1/none")
        .env("GENE_REGISTRY__SERVER__BIND", taken.local_addr().unwrap().to_string())
        .env("GENE_REGISTRY__OPS__BIND", "127.0.0.1:0")
        .stdout_to(target.try_clone().unwrap());
    let process = launch.stderr_to(target).start();
    let status = process.exited_within(START_TIMEOUT).await.expect("the process ends");
    assert_eq!(status.code(), Some(1));
}
