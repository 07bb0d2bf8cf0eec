//! The accept loop: bounded connections, timeouts, graceful end. HTTP/1.1, and HTTP/2 by prior
//! knowledge or, over TLS, by ALPN.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use poem::{Request, Response};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::task::TaskTracker;

mod connection;
mod http;
mod peers;
mod streams;
mod timed_io;
mod tls;
mod tracked_body;
mod watchdog;

use connection::{Connection, ShutdownSignals};

pub use peers::Peers;
pub use tls::{Reloaded, Tls, TlsError};

/// Pause after an accept that failed for want of descriptors or memory.
const OUT_OF_RESOURCES: Duration = Duration::from_millis(50);

/// How many unsent bytes the system holds for one connection.
#[cfg(target_os = "linux")]
const MAX_UNSENT: u32 = 128 * 1024;

/// Answers requests.
pub trait Handler: Send + Sync + 'static {
    /// The answer. Refusals and faults are answers too.
    fn answer(&self, request: Request) -> impl Future<Output = Response> + Send;
}

/// What connections are held to.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Connections at once; more wait in the listener's backlog.
    pub connections: usize,
    /// For the head of a request, and for a new connection's first request.
    pub head: Duration,
    /// Without a request.
    pub idle: Duration,
    /// For the client to take a response, plus one second for each 16 KiB of it.
    pub response: Duration,
    /// For requests under way when the end has come.
    pub grace: Duration,
}

/// Where connections come in.
#[derive(Debug)]
pub struct Listener {
    tcp: TcpListener,
    tls: Option<Tls>,
    peers: Arc<Peers>,
}

impl Listener {
    /// Accepts the connections of `peers`. With TLS, nothing else is spoken.
    pub fn new(tcp: TcpListener, tls: Option<Tls>, peers: Arc<Peers>) -> Self {
        bound_unsent(&tcp);
        Self { tcp, tls, peers }
    }
}

/// Bounds what the system holds of a response that has not been sent yet, for all connections of
/// a listener: else a client that reads slowly is not told from one that does not read.
#[cfg(target_os = "linux")]
fn bound_unsent(tcp: &TcpListener) {
    if let Err(error) = socket2::SockRef::from(tcp).set_tcp_notsent_lowat(MAX_UNSENT) {
        tracing::debug!(%error, "TCP_NOTSENT_LOWAT could not be set");
    }
}

#[cfg(not(target_os = "linux"))]
fn bound_unsent(_: &TcpListener) {}

/// A listener that is being served.
#[derive(Debug)]
pub struct Serving {
    /// Where it listens.
    pub address: SocketAddr,
    /// `http`, or `https` where TLS is spoken.
    pub scheme: &'static str,
    signals: ShutdownSignals,
    accepting: tokio::task::JoinHandle<()>,
    connections: TaskTracker,
    grace: Duration,
}

/// Serves what comes to `listener`.
///
/// # Errors
/// When the listener's address can't be told.
pub fn serve<H: Handler>(
    listener: Listener,
    handler: Arc<H>,
    limits: Limits,
) -> io::Result<Serving> {
    let address = listener.tcp.local_addr()?;
    let scheme = if listener.tls.is_some() { "https" } else { "http" };
    let (signals, connections) = (ShutdownSignals::default(), TaskTracker::new());
    let acceptor = Acceptor {
        listener,
        handler,
        limits,
        signals: signals.clone(),
        connections: connections.clone(),
    };
    let accepting = tokio::spawn(acceptor.run());
    Ok(Serving { address, scheme, signals, accepting, connections, grace: limits.grace })
}

impl Serving {
    /// From now on each answer is the last one on its connection: clients that keep connections
    /// go elsewhere. New ones are still served.
    pub fn drain(&self) {
        self.signals.drain.cancel();
    }

    /// Ends: no new connections; requests under way may finish within the grace time.
    pub async fn shutdown(self) {
        self.drain();
        self.signals.stop.cancel();
        // It ends on its own once told to; a panic in it has been reported already.
        let _ = self.accepting.await;
        self.connections.close();
        if tokio::time::timeout(self.grace, self.connections.wait()).await.is_err() {
            tracing::warn!("requests were still under way when the grace time ended");
            self.signals.kill.cancel();
            self.connections.wait().await;
        }
    }
}

struct Acceptor<H> {
    listener: Listener,
    handler: Arc<H>,
    limits: Limits,
    signals: ShutdownSignals,
    connections: TaskTracker,
}

impl<H: Handler> Acceptor<H> {
    async fn run(self) {
        let places = Arc::new(Semaphore::new(self.limits.connections));
        loop {
            let accepted = tokio::select! {
                () = self.signals.stop.cancelled() => return,
                accepted = async {
                    // Acquired first: what can't be served stays in the backlog.
                    let place = Arc::clone(&places).acquire_owned().await;
                    (self.listener.tcp.accept().await, place)
                } => accepted,
            };
            match accepted {
                (Ok((stream, address)), place) => {
                    let free = places.available_permits();
                    // Refused: both are closed at once.
                    let Some(slot) = self.listener.peers.admit(address.ip(), free) else {
                        continue;
                    };
                    let connection = self.connection(stream, address);
                    self.connections.spawn(async move {
                        // Dropped in this order: the next connection, which needs the permit,
                        // must find the peer's count without this one.
                        let _counted = (slot, place);
                        connection.await;
                    });
                }
                (Err(error), _) if concerns_one_connection(&error) => {}
                (Err(error), _) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(OUT_OF_RESOURCES).await;
                }
            }
        }
    }

    /// Serves one connection to its end. A handshake holds up nobody else.
    fn connection(
        &self,
        stream: TcpStream,
        peer: SocketAddr,
    ) -> impl Future<Output = ()> + Send + use<H> {
        let connection = Connection {
            handler: Arc::clone(&self.handler),
            limits: self.limits,
            signals: self.signals.clone(),
            peer,
        };
        connection.serve(stream, self.listener.tls.clone())
    }
}

/// The peer went away between its SYN and our accept.
fn concerns_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[tokio::test]
    async fn accepted_connections_bound_what_the_system_holds_unsent() {
        let tcp = TcpListener::bind("127.0.0.1:0").await.expect("a socket");
        bound_unsent(&tcp);
        let address = tcp.local_addr().expect("an address");
        let _client = TcpStream::connect(address).await.expect("a connection");
        let (accepted, _) = tcp.accept().await.expect("the same connection");
        let bound = socket2::SockRef::from(&accepted).tcp_notsent_lowat();
        assert_eq!(bound.expect("a value"), MAX_UNSENT);
    }
}
