//! How many connections one peer may hold: as many as are free; a trusted proxy all of them. Idle ones make
//! room for others.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::{ControlledUpstream, TIMEOUT, replica, replica_over};
use crate::support::binary::ReplicaProcess;
use crate::support::frames::{HEADERS, NO_WINDOW, RST_STREAM, connect, next, open};
use crate::support::haproxy::HaProxy;
use crate::support::postgres::PostgresServer;
use crate::support::raw::address;
use crate::support::replica::{READER, sample};
use crate::support::wait::{eventually, until};

const FIRST_PEER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 1);
const SECOND_PEER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// Between two requests on a busy connection.
const BUSY_INTERVAL: Duration = Duration::from_millis(300);

const HEAD_DOCS: &str = "HEAD /docs HTTP/1.1\r\nHost: t\r\n\r\n";

/// A kept-alive connection from `peer` on which a request was served; `None` if it was closed at
/// once.
async fn connected(address: &str, peer: Ipv4Addr) -> Option<TcpStream> {
    connected_by(address, peer, HEAD_DOCS).await
}

/// As [`connected`], by the first of these requests.
async fn connected_by(address: &str, peer: Ipv4Addr, requests: &str) -> Option<TcpStream> {
    served(address, peer, requests).await.map(|(stream, _)| stream)
}

/// A connection from `peer`, and the head of the response to the first of these requests; `None` if
/// it was closed at once.
async fn served(address: &str, peer: Ipv4Addr, requests: &str) -> Option<(TcpStream, String)> {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind((peer, 0).into()).unwrap();
    // A balancer may have reset it already.
    let mut stream = socket.connect(address.parse().unwrap()).await.ok()?;
    // Ignored: it may be closed already.
    drop(stream.write_all(requests.as_bytes()).await);
    let mut response = Vec::new();
    while !response.ends_with(b"\r\n\r\n") {
        let read =
            timeout(TIMEOUT, stream.read_buf(&mut response)).await.expect("served or closed");
        if !matches!(read, Ok(1..)) {
            assert!(response.is_empty());
            return None;
        }
    }
    let head = String::from_utf8(response).unwrap();
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    Some((stream, head))
}

/// Opens connections from `peer` until one is refused or not kept, `tries` at most.
async fn open_connections(address: &str, peer: Ipv4Addr, tries: usize) -> Vec<TcpStream> {
    open_connections_by(address, peer, tries, HEAD_DOCS).await
}

/// As [`open_connections`], each by [`connected_by`].
async fn open_connections_by(
    address: &str,
    peer: Ipv4Addr,
    tries: usize,
    requests: &str,
) -> Vec<TcpStream> {
    let mut streams = Vec::new();
    while streams.len() < tries {
        match served(address, peer, requests).await {
            Some((stream, head)) if !head.to_lowercase().contains("connection: close") => {
                streams.push(stream);
            }
            _ => break,
        }
    }
    streams
}

#[tokio::test(flavor = "multi_thread")]
async fn a_peer_holds_as_many_connections_as_are_free_and_leaves_the_rest_to_others() {
    let (upstream, key) = ControlledUpstream::new();
    let replica =
        replica_over(Arc::clone(&upstream), |config| config.server.max_connections = 16).await;
    let address = address(&replica.base);
    // The second request keeps the connection busy: idle ones would soon be closed.
    upstream.hold();
    let requests = format!(
        "{HEAD_DOCS}GET /v1/arena/insights?domain=search HTTP/1.1\r\nHost: t\r\nX-API-Key: {key}\r\n\r\n"
    );

    let mut streams = open_connections_by(&address, FIRST_PEER, 16, &requests).await;
    assert_eq!(streams.len(), 8, "half of all");
    let others = open_connections_by(&address, SECOND_PEER, 16, &requests).await;
    assert_eq!(others.len(), 4, "half of the rest");
    assert!(connected(&address, FIRST_PEER).await.is_none(), "no more for the first peer");
    drop(others);
    streams.truncate(7);

    let again =
        until(TIMEOUT, "a closed connection makes room", || connected(&address, FIRST_PEER)).await;
    drop(again);
    let refused =
        replica.metric(r#"gene_registry_connections_refused_total{listener="public"}"#).await;
    assert!(refused.is_some_and(|refused| refused >= 3.0), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn idle_connections_of_several_peers_make_room_for_a_new_one() {
    let (replica, _) = replica(|config| config.server.max_connections = 8).await;
    let head_livez = "HEAD /livez HTTP/1.1\r\nHost: t\r\n\r\n";
    // The idle timeout is 75 s.
    for (url, max, request) in [(&replica.base, 8, HEAD_DOCS), (&replica.ops, 64, head_livez)] {
        let address = address(url);
        let mut streams = Vec::new();
        for number in 2..=8 {
            let (peer, rest) = (Ipv4Addr::new(127, 0, 0, number), max - streams.len());
            streams.extend(open_connections_by(&address, peer, rest, request).await);
        }
        assert_eq!(streams.len(), max, "all of {url}");
        assert!(connected_by(&address, FIRST_PEER, request).await.is_some(), "{url}");
        drop(streams);
        let mut silent = Vec::new();
        for number in 0..max as u8 {
            let socket = TcpSocket::new_v4().unwrap();
            socket.bind((Ipv4Addr::new(127, 0, 1, number), 0).into()).unwrap();
            silent.push(socket.connect(address.parse().unwrap()).await.unwrap());
        }
        // The head timeout is 10 s.
        let served = timeout(HEAD_TIMEOUT / 2, connected_by(&address, FIRST_PEER, request)).await;
        assert!(served.is_ok_and(|stream| stream.is_some()), "{url}");
    }
}

/// Connections from `peer` that send a request again and again, and are opened anew when they are closed.
fn keep_busy(
    address: &str,
    peer: Ipv4Addr,
    connections: usize,
    served: &Arc<AtomicUsize>,
) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    for _ in 0..connections {
        let (address, served) = (address.to_owned(), Arc::clone(served));
        tasks.spawn(async move {
            loop {
                if let Some(mut stream) = connected(&address, peer).await {
                    served.fetch_add(1, Ordering::Relaxed);
                    while is_served_again(&mut stream).await {
                        sleep(BUSY_INTERVAL).await;
                    }
                }
                sleep(BUSY_INTERVAL).await;
            }
        });
    }
    tasks
}

/// Whether a connection serves another request.
async fn is_served_again(stream: &mut TcpStream) -> bool {
    let mut response = Vec::new();
    if stream.write_all(HEAD_DOCS.as_bytes()).await.is_err() {
        return false;
    }
    while !response.ends_with(b"\r\n\r\n") {
        if !matches!(stream.read_buf(&mut response).await, Ok(1..)) {
            return false;
        }
    }
    true
}

/// While other peers keep all of `max` connections busy, a new one is served.
async fn assert_served_beside_busy_peers(address: &str, max: usize) {
    let served = Arc::new(AtomicUsize::new(0));
    let others = (2..=10).map(|number| Ipv4Addr::new(127, 0, 0, number));
    let busy: Vec<_> = others.map(|peer| keep_busy(address, peer, max / 2, &served)).collect();
    eventually(TIMEOUT, "all connections are busy", || async {
        served.load(Ordering::Relaxed) >= max
    })
    .await;
    let new = until(2 * TIMEOUT, "a new peer is served", || connected(address, FIRST_PEER)).await;
    drop((busy, new));
}

#[tokio::test(flavor = "multi_thread")]
async fn busy_connections_of_several_peers_make_room_for_a_new_one() {
    let (replica, _) = replica(|config| config.server.max_connections = 8).await;
    assert_served_beside_busy_peers(&address(&replica.base), 8).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_of_several_clients_of_the_shipped_balancer_make_room_for_a_new_one() {
    let (replica, _) = replica(|_| {}).await;
    let balancer = HaProxy::start_with(&replica.base, &replica.ops, small).await;
    let address = address(&balancer.url("127.0.0.1"));
    let mut idle = Vec::new();
    for number in 2..=10 {
        idle.extend(open_connections(&address, Ipv4Addr::new(127, 0, 0, number), 40).await);
    }
    assert!(idle.len() >= 20, "{}", idle.len());
    until(TIMEOUT, "idle ones leave room", || connected(&address, FIRST_PEER)).await;
    drop(idle);
    assert_served_beside_busy_peers(&address, 36).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trusted_proxy_holds_all_connections() {
    let (replica, _) = replica(|config| {
        config.server.max_connections = 8;
        config.server.trusted_proxies = vec!["127.0.0.1".parse().unwrap()];
    })
    .await;
    assert_eq!(open_connections(&address(&replica.base), FIRST_PEER, 8).await.len(), 8);
}

#[tokio::test(flavor = "multi_thread")]
async fn with_a_bound_of_one_connection_the_first_peer_is_served() {
    let (replica, _) = replica(|config| config.server.max_connections = 1).await;
    assert!(connected(&address(&replica.base), FIRST_PEER).await.is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_log_names_the_setting_once_when_a_peer_reaches_its_bound() {
    let database = sample(PostgresServer::shared().await).await;
    let process = ReplicaProcess::start(&[
        ("DATABASE_URL", &database.url_as(READER)),
        ("GENE_REGISTRY__SERVER__MAX_CONNECTIONS", "8"),
    ])
    .await;
    let address = address(&process.replica.base);

    let streams = open_connections(&address, FIRST_PEER, 8).await;
    for _ in 0..5 {
        assert!(connected(&address, FIRST_PEER).await.is_none());
    }
    assert_eq!(streams.len(), 4);
    drop(streams);
    // A peer that comes back could otherwise fill the log.
    eventually(TIMEOUT, "the connections are free again", || async {
        open_connections(&address, FIRST_PEER, 8).await.len() == 4
    })
    .await;

    process.wait_for_single_line(&["WARN", "127.0.0.1", "server.trusted_proxies"]).await;
}

/// Changes the balancer's configuration to 40 connections.
fn small(text: &mut String) {
    for (from, to) in
        [("maxconn 4000", "maxconn 40"), ("gt 4000", "gt 40"), ("fe_conn gt 2000", "fe_conn gt 20")]
    {
        assert!(text.contains(from), "{from}");
        *text = text.replace(from, to);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_client_of_the_shipped_balancer_leaves_connections_to_others() {
    let (replica, _) = replica(|_| {}).await;
    let balancer = HaProxy::start_with(&replica.base, &replica.ops, small).await;
    let address = address(&balancer.url("127.0.0.1"));

    let streams = open_connections(&address, FIRST_PEER, 40).await;
    assert!((1..=20).contains(&streams.len()), "{}", streams.len());
    assert!(connected(&address, SECOND_PEER).await.is_some());
    drop(streams);
    eventually(TIMEOUT, "closed connections are free again", || async {
        connected(&address, FIRST_PEER).await.is_some()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unread_responses_of_one_client_of_the_shipped_balancer_leave_room_for_others() {
    const CONNECTIONS: u32 = 10;
    const STREAMS: u32 = 8;
    let (replica, _) = replica(|_| {}).await;
    let balancer = HaProxy::start_with(&replica.base, &replica.ops, |text| {
        assert!(text.contains("gt 2000") && text.contains("maxconn 2000"));
        *text = text.replace("2000", "20");
    })
    .await;
    let address = address(&balancer.url("127.0.0.1"));
    let mut connections = Vec::new();
    for _ in 0..CONNECTIONS {
        let mut connection = connect(&address, NO_WINDOW).await;
        let open = |n| open(2 * n + 1, "GET", "/docs/swagger-ui-bundle.js");
        let requests: Vec<u8> = (0..STREAMS).flat_map(open).collect();
        connection.write_all(&requests).await.unwrap();
        connections.push(connection);
    }
    let mut heads = 0;
    for connection in &mut connections {
        let mut answered = 0;
        while answered < STREAMS
            && let Some(frame) = next(connection).await
        {
            heads += u32::from(frame.kind == HEADERS);
            answered += u32::from(frame.kind == HEADERS || frame.kind == RST_STREAM);
        }
    }
    assert!((1..=10).contains(&heads), "{heads}");
    assert!(connected(&address, SECOND_PEER).await.is_some());
}
