//! The replicas restart one after the other behind the balancer, and no request fails.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use reqwest::{Client, Version};
use tokio::task::JoinHandle;
use tokio_postgres::Client as Database;

use crate::support::fleet::ComposedFleet;
use crate::support::postgres::connect;
use crate::support::replica::new_key_in;
use crate::support::wait::eventually;

const TIMEOUT: Duration = Duration::from_secs(30);

/// Between two requests on one connection.
const REQUEST_INTERVAL: Duration = Duration::from_millis(10);

/// The number of connections with a steady stream of requests, for each protocol.
const STREAMS: usize = 4;

/// Long timeouts of the database: a locked table is what makes a request slow.
const LONG_TIMEOUTS: [(&str, &str); 8] = [
    ("GENE_REGISTRY__SERVER__DRAIN_MS", "6000"),
    // The steady load is not refreshed meanwhile.
    ("GENE_REGISTRY__CACHE__SEARCH__FRESH_S", "3600"),
    ("GENE_REGISTRY__CACHE__INSIGHTS__FRESH_S", "3600"),
    ("GENE_REGISTRY__SERVER__REQUEST_TIMEOUT_MS", "20000"),
    ("GENE_REGISTRY__UPSTREAM__QUERY_MS", "9000"),
    ("GENE_REGISTRY__UPSTREAM__DEADLINE_MS", "9500"),
    ("GENE_REGISTRY__UPSTREAM__WAIT_MS", "9000"),
    ("GENE_REGISTRY__UPSTREAM__CONNECT_MS", "9000"),
];

/// A response's version and status, or the reason why there was none.
type RequestResult = Result<(Version, u16), String>;

fn clients(count: usize) -> Vec<(Client, Version)> {
    let one = |version| {
        let client = Client::builder().timeout(TIMEOUT);
        let is_2 = version == Version::HTTP_2;
        let client = if is_2 { client.http2_prior_knowledge() } else { client.http1_only() };
        (client.build().unwrap(), version)
    };
    [Version::HTTP_11, Version::HTTP_2]
        .into_iter()
        .flat_map(|version| (0..count).map(move |_| one(version)))
        .collect()
}

async fn send_request(client: &Client, url: &str, key: &str) -> RequestResult {
    let response = client.get(url).header("X-API-Key", key).send().await;
    let response = response.map_err(|error| format!("{error:?}"))?;
    let (version, status) = (response.version(), response.status().as_u16());
    let body = response.bytes().await.map_err(|error| format!("{error:?}"))?;
    if body.is_empty() { Err("an empty body".to_owned()) } else { Ok((version, status)) }
}

/// Requests that continue, one after the other on each connection, until they are stopped.
struct RestartLoad {
    stop: Arc<AtomicBool>,
    streams: Vec<JoinHandle<Vec<RequestResult>>>,
}

impl RestartLoad {
    fn start(base: &str, key: &str) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let paths = ["/genes", "/arena/insights?domain=search", "/genes?limit=50", "/openapi.json"];
        let stream = |(client, version): (Client, Version)| {
            let urls = paths.map(|path| format!("{base}{path}"));
            let (key, stop) = (key.to_owned(), Arc::clone(&stop));
            tokio::spawn(async move {
                let mut outcomes = Vec::new();
                for url in urls.iter().cycle() {
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                    let outcome = send_request(&client, url, &key).await;
                    if let Ok((given, _)) = &outcome {
                        assert_eq!(*given, version);
                    }
                    outcomes.push(outcome);
                    tokio::time::sleep(REQUEST_INTERVAL).await;
                }
                outcomes
            })
        };
        let streams = clients(STREAMS).into_iter().map(stream).collect();
        Self { stop, streams }
    }

    async fn stop(self) -> Vec<RequestResult> {
        self.stop.store(true, Ordering::Relaxed);
        join_all(self.streams).await.into_iter().flat_map(Result::unwrap).collect()
    }
}

/// Uncached requests while the table that they need is locked; continues until the replica has one
/// of them in progress.
async fn slow_requests(
    fleet: &ComposedFleet,
    number: usize,
    key: &str,
) -> Vec<JoinHandle<RequestResult>> {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    let in_use = r#"gene_registry_pool_connections{pool="postgres",state="in_use"}"#;
    let replica = &fleet.replicas[number].1;
    let mut slow = Vec::new();
    let clients = clients(1);
    while slow.len() < 30 {
        if replica.metric(in_use).await.is_some_and(|count| count >= 1.0) {
            return slow;
        }
        let (client, _) = clients[slow.len() % 2].clone();
        let domain = NEXT.fetch_add(1, Ordering::Relaxed);
        let url = format!("{}/genes?domain=slow.{domain}", fleet.balancer.base);
        let key = key.to_owned();
        slow.push(tokio::spawn(async move { send_request(&client, &url, &key).await }));
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("none of {} slow requests reached that replica", slow.len());
}

/// Restarts a replica with a slow request in progress; the results of all slow requests.
async fn restart(
    fleet: &ComposedFleet,
    number: usize,
    key: &str,
    owner: &Database,
) -> Vec<RequestResult> {
    let (name, replica) = &fleet.replicas[number];
    let (pid, address) = (fleet.pid(name), crate::support::raw::address(&replica.base));
    let said =
        |word: &str| fleet.log("haproxy").matches(&format!("Server api/{name} is {word}")).count();
    let (down, up) = (said("DOWN"), said("UP"));
    owner.batch_execute("begin; lock table registry.gene in access exclusive mode").await.unwrap();
    let slow = slow_requests(fleet, number, key).await;

    fleet.terminate(name);
    eventually(TIMEOUT, "the balancer skips the replica", || async { said("DOWN") > down }).await;
    assert!(tokio::net::TcpStream::connect(&address).await.is_ok(), "the replica still listens");
    eventually(TIMEOUT, "the replica no longer listens", || async {
        tokio::net::TcpStream::connect(&address).await.is_err()
    })
    .await;
    assert_eq!(fleet.pid(name), pid, "the replica waits for the slow request");
    owner.batch_execute("rollback").await.unwrap();

    let slow = join_all(slow).await.into_iter().map(Result::unwrap).collect();
    eventually(TIMEOUT, "the balancer uses the replica again", || async {
        fleet.pid(name) != pid && said("UP") > up
    })
    .await;
    slow
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rolling_restart_fails_no_request() {
    let fleet = ComposedFleet::start(&LONG_TIMEOUTS).await;
    let owner = connect(&fleet.postgres_url).await;
    // The role's own setting would end a statement within a second.
    let sql = "alter role gene_registry_reader set statement_timeout = '20s'; \
               select pg_terminate_backend(pid) from pg_stat_activity \
               where usename = 'gene_registry_reader'";
    owner.batch_execute(sql).await.unwrap();
    let key = new_key_in(&fleet.postgres_url, |_| {}).await;
    let load = RestartLoad::start(&fleet.balancer.base, &key);
    tokio::time::sleep(Duration::from_secs(1)).await;

    let mut slow = Vec::new();
    for number in 0..fleet.replicas.len() {
        slow.extend(restart(&fleet, number, &key, &owner).await);
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    let steady = load.stop().await;

    for outcome in steady.iter().chain(&slow) {
        assert!(matches!(outcome, Ok((_, 200))), "{outcome:?}\n{}", fleet.log("haproxy"));
    }
    for version in [Version::HTTP_11, Version::HTTP_2] {
        let count = steady.iter().filter(|one| one.as_ref().unwrap().0 == version).count();
        assert!(count > 200, "{count} over {version:?}");
    }
    let log = fleet.log("haproxy");
    for (name, _) in &fleet.replicas {
        let served = log.lines().filter(|line| line.contains(&format!(" api/{name} ")));
        let slow = served.filter(|line| line.contains("/v1/genes?domain=slow."));
        assert!(slow.count() > 0, "{name} had a slow one: {log}");
    }
    // Clients kept their connections: there is one for each stream.
    let requests = log.lines().filter(|line| line.contains("/v1/arena/insights"));
    let peers: HashSet<_> = requests.map(|line| line.split(' ').next().unwrap()).collect();
    assert_eq!(peers.len(), 2 * STREAMS, "{peers:?}");
}
