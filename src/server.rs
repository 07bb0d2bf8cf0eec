//! The accept loop: bounded connections, timeouts, graceful end. HTTP/1.1, and HTTP/2 by prior
//! knowledge.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use poem::http::uri::Scheme;
use poem::http::{StatusCode, Version, header};
use poem::web::{LocalAddr, RemoteAddr};
use poem::{Addr, IntoResponse, Request, Response};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

mod watchdog;

use watchdog::{Watchdog, Watched};

/// The head of a request may take this much, and hold this many fields.
const MAX_HEAD_BYTES: usize = 64 * 1024;
const MAX_HEADER_FIELDS: usize = 256;

/// Requests at once on one HTTP/2 connection.
const MAX_STREAMS: u32 = 128;

/// How long a connection that is being closed may take to say goodbye.
const GOODBYE: Duration = Duration::from_secs(1);

/// Pause after an accept that failed for want of descriptors or memory.
const OUT_OF_RESOURCES: Duration = Duration::from_millis(50);

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
    /// For requests under way when the end has come.
    pub grace: Duration,
}

/// A listener that is being served.
#[derive(Debug)]
pub struct Serving {
    /// Where it listens.
    pub address: SocketAddr,
    stop: CancellationToken,
    accepting: tokio::task::JoinHandle<()>,
    connections: TaskTracker,
    kill: CancellationToken,
    grace: Duration,
}

/// Serves what comes to `listener`.
///
/// # Errors
/// When the listener's address can't be told.
pub fn serve<H: Handler>(
    listener: TcpListener,
    handler: Arc<H>,
    limits: Limits,
) -> io::Result<Serving> {
    let address = listener.local_addr()?;
    let (stop, kill) = (CancellationToken::new(), CancellationToken::new());
    let connections = TaskTracker::new();
    let acceptor = Acceptor {
        listener,
        handler,
        limits,
        stop: stop.clone(),
        kill: kill.clone(),
        connections: connections.clone(),
    };
    let accepting = tokio::spawn(acceptor.run());
    Ok(Serving { address, stop, accepting, connections, kill, grace: limits.grace })
}

impl Serving {
    /// Ends: no new connections; requests under way may finish within the grace time.
    pub async fn shutdown(self) {
        self.stop.cancel();
        // It ends on its own once told to; a panic in it has been reported already.
        let _ = self.accepting.await;
        self.connections.close();
        if tokio::time::timeout(self.grace, self.connections.wait()).await.is_err() {
            tracing::warn!("requests were still under way when the grace time ended");
            self.kill.cancel();
            self.connections.wait().await;
        }
    }
}

struct Acceptor<H> {
    listener: TcpListener,
    handler: Arc<H>,
    limits: Limits,
    stop: CancellationToken,
    kill: CancellationToken,
    connections: TaskTracker,
}

impl<H: Handler> Acceptor<H> {
    async fn run(self) {
        let places = Arc::new(Semaphore::new(self.limits.connections));
        loop {
            let accepted = tokio::select! {
                () = self.stop.cancelled() => return,
                accepted = async {
                    // Acquired first: what can't be served stays in the backlog.
                    let place = Arc::clone(&places).acquire_owned().await;
                    (self.listener.accept().await, place)
                } => accepted,
            };
            match accepted {
                (Ok((stream, peer)), place) => {
                    let connection = self.connection(stream, peer);
                    let kill = self.kill.clone();
                    self.connections.spawn(async move {
                        let _place = place;
                        kill.run_until_cancelled(connection).await;
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

    /// Serves one connection to its end.
    fn connection(
        &self,
        stream: TcpStream,
        peer: SocketAddr,
    ) -> impl Future<Output = ()> + Send + use<H> {
        let (handler, stop) = (Arc::clone(&self.handler), self.stop.clone());
        let watchdog = Watchdog::new(self.limits.head, self.limits.idle);
        async move {
            // Small answers must not wait for the peer's acknowledgements.
            let _ = stream.set_nodelay(true);
            let local = stream.local_addr().unwrap_or(peer);
            let watched = Arc::clone(&watchdog);
            let service = service_fn(move |request: hyper::Request<Incoming>| {
                let (handler, request_watched) =
                    (Arc::clone(&handler), watched.begin(request.version()));
                async move {
                    let _watched = request_watched;
                    if let Some(refusal) = refused_head(&request) {
                        return Ok(hyper::Response::from(refusal));
                    }
                    let request = Request::from((
                        request,
                        LocalAddr(Addr::SocketAddr(local)),
                        RemoteAddr(Addr::SocketAddr(peer)),
                        Scheme::HTTP,
                    ));
                    let response = handler.answer(request).await;
                    Ok::<_, Infallible>(hyper::Response::from(response))
                }
            });
            let io = TokioIo::new(Watched::new(stream, Arc::clone(&watchdog)));
            let builder = http();
            let connection = builder.serve_connection(io, service);
            tokio::pin!(connection);
            tokio::select! {
                ended = connection.as_mut() => return report(ended),
                () = stop.cancelled() => {
                    connection.as_mut().graceful_shutdown();
                    // Requests under way may finish; heads that don't come don't hold up the end.
                    return tokio::select! {
                        ended = connection => report(ended),
                        () = watchdog.head_awaited_for(GOODBYE) => {}
                    };
                }
                () = watchdog.expired() => {}
            }
            connection.as_mut().graceful_shutdown();
            // Whoever does not take the goodbye either is cut off.
            if let Ok(ended) = tokio::time::timeout(GOODBYE, connection).await {
                report(ended);
            }
        }
    }
}

/// What the HTTP library lets through: more fields than on HTTP/1.1 (HTTP/2), no host or several
/// (RFC 9112, section 3.2).
fn refused_head(request: &hyper::Request<Incoming>) -> Option<Response> {
    let headers = request.headers();
    if headers.len() > MAX_HEADER_FIELDS {
        return Some(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE.into());
    }
    let hosts = headers.get_all(header::HOST).iter().count();
    let is_wrong = request.version() == Version::HTTP_11 && hosts != 1;
    // Like every refusal of a head: what such a peer sends next is not listened to.
    is_wrong
        .then(|| StatusCode::BAD_REQUEST.with_header(header::CONNECTION, "close").into_response())
}

fn http() -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    // Our own watchdog measures heads and idleness, on both protocols.
    builder.http1().header_read_timeout(None).max_buf_size(MAX_HEAD_BYTES);
    // No `pipeline_flush`: with it the refusal of a broken head, whose bytes stay unread, is never
    // sent.
    builder.http1().max_headers(MAX_HEADER_FIELDS);
    builder.http2().max_header_list_size(MAX_HEAD_BYTES as u32);
    builder.http2().max_concurrent_streams(MAX_STREAMS);
    builder
}

fn report(ended: Result<(), Box<dyn std::error::Error + Send + Sync>>) {
    if let Err(error) = ended {
        tracing::debug!(error = &*error, "a connection ended badly");
    }
}

/// The peer went away between its SYN and our accept.
fn concerns_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}
