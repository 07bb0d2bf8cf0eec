//! The accept loop: accepts a bounded number of connections and ends them gracefully.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

use super::connection::ClientConnection;
use super::connection_limits::ConnectionLimits;
use super::crowd::Crowd;
use super::handler::Handler;
use super::peers::Peers;
use super::shutdown_signals::ShutdownSignals;
use super::tls::ServerTls;
use crate::sync::supervise;

/// Pause after an accept that failed for lack of descriptors or memory.
const ACCEPT_RETRY_PAUSE: Duration = Duration::from_millis(50);

/// Unsent bytes that the system buffers for one connection.
#[cfg(target_os = "linux")]
const MAX_UNSENT_BYTES: u32 = 128 * 1024;

/// A socket that listens, and how to accept its connections.
#[derive(Debug)]
pub struct Listener {
    tcp: TcpListener,
    tls: Option<ServerTls>,
    peers: Arc<Peers>,
}

impl Listener {
    /// Counts connections in `peers`. With `tls`, plain HTTP is not accepted.
    pub fn new(tcp: TcpListener, tls: Option<ServerTls>, peers: Arc<Peers>) -> Self {
        limit_unsent_bytes(&tcp);
        Self { tcp, tls, peers }
    }
}

/// Bounds how much of a response the system buffers, for all connections of a listener. Otherwise
/// a client that reads slowly could not be told from one that does not read.
#[cfg(target_os = "linux")]
fn limit_unsent_bytes(tcp: &TcpListener) {
    if let Err(error) = socket2::SockRef::from(tcp).set_tcp_notsent_lowat(MAX_UNSENT_BYTES) {
        tracing::debug!(%error, "TCP_NOTSENT_LOWAT could not be set");
    }
}

#[cfg(not(target_os = "linux"))]
fn limit_unsent_bytes(_: &TcpListener) {}

/// A listener that is being served.
#[derive(Debug)]
pub struct Serving {
    /// The address that it listens on.
    pub address: SocketAddr,
    /// `https` with TLS, otherwise `http`.
    pub scheme: &'static str,
    signals: ShutdownSignals,
    accepting: AbortOnDropHandle<()>,
    connections: TaskTracker,
    grace: Duration,
}

/// Accepts connections and answers their requests with `handler`, in a task of its own.
///
/// # Errors
/// If the system does not report the listener's address.
pub fn serve<H: Handler>(
    listener: Listener,
    handler: Arc<H>,
    limits: ConnectionLimits,
) -> io::Result<Serving> {
    let address = listener.tcp.local_addr()?;
    let scheme = if listener.tls.is_some() { "https" } else { "http" };
    let (signals, crowd) = (ShutdownSignals::default(), Crowd::new(limits.connections));
    let connections = crowd.open.clone();
    let acceptor = Arc::new(Acceptor {
        listener,
        handler,
        limits,
        permits: Arc::new(Semaphore::new(limits.connections)),
        signals: signals.clone(),
        crowd: Arc::new(crowd),
    });
    let accepting = supervise("accept_loop", move || Arc::clone(&acceptor).run());
    Ok(Serving { address, scheme, signals, accepting, connections, grace: limits.grace })
}

impl Serving {
    /// From now on each response is the last one on its connection, so that clients with
    /// persistent connections move to other replicas. New connections are still accepted.
    pub fn drain(&self) {
        self.signals.drain.cancel();
    }

    /// Accepts no new connections. Requests in progress may finish within the grace time.
    pub async fn shutdown(self) {
        self.drain();
        self.signals.stop.cancel();
        // Aborted between two connections. The result says only that.
        self.accepting.abort();
        let _ = self.accepting.await;
        self.connections.close();
        if tokio::time::timeout(self.grace, self.connections.wait()).await.is_err() {
            tracing::warn!(
                "requests were still in progress when the grace time ended; their connections are closed"
            );
            self.signals.kill.cancel();
            self.connections.wait().await;
        }
    }
}

struct Acceptor<H> {
    listener: Listener,
    handler: Arc<H>,
    limits: ConnectionLimits,
    permits: Arc<Semaphore>,
    signals: ShutdownSignals,
    crowd: Arc<Crowd>,
}

impl<H: Handler> Acceptor<H> {
    async fn run(self: Arc<Self>) {
        loop {
            // Acquired first: further connections stay in the backlog.
            let permit = Arc::clone(&self.permits).acquire_owned().await;
            match self.listener.tcp.accept().await {
                Ok((stream, peer)) => {
                    let free = self.permits.available_permits();
                    // Refused: `stream` is dropped, which closes the connection.
                    let Some(slot) = self.listener.peers.admit(peer.ip(), free) else {
                        continue;
                    };
                    // A balancer may be about to use a connection that is closed early.
                    let crowd = (!slot.is_trusted_proxy()).then(|| Arc::clone(&self.crowd));
                    let connection = ClientConnection {
                        handler: Arc::clone(&self.handler),
                        limits: self.limits,
                        signals: self.signals.clone(),
                        peer,
                        crowd,
                        is_trusted_proxy: slot.is_trusted_proxy(),
                    };
                    let serving = connection.serve(stream, self.listener.tls.clone());
                    self.crowd.open.spawn(async move {
                        // Dropped in this order: the next connection, which needs the permit,
                        // must find the peer's count without this one.
                        let _held = (slot, permit);
                        serving.await;
                    });
                }
                Err(error) if is_connection_error(&error) => {}
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection; trying again shortly");
                    tokio::time::sleep(ACCEPT_RETRY_PAUSE).await;
                }
            }
        }
    }
}

/// Whether only this connection failed: its peer closed it before it was accepted.
fn is_connection_error(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use tokio::net::TcpStream;

    use super::*;

    #[tokio::test]
    async fn accepted_connections_inherit_the_limit_of_unsent_bytes() {
        let tcp = TcpListener::bind("127.0.0.1:0").await.expect("a socket");
        limit_unsent_bytes(&tcp);
        let address = tcp.local_addr().expect("an address");
        let _client = TcpStream::connect(address).await.expect("a connection");
        let (accepted, _) = tcp.accept().await.expect("the same connection");
        let bound = socket2::SockRef::from(&accepted).tcp_notsent_lowat();
        assert_eq!(bound.expect("a value"), MAX_UNSENT_BYTES);
    }
}
