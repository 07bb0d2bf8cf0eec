//! Serves one connection, from its TLS handshake to its close.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt;
use http_body_util::combinators::BoxBody;
use hyper::body::{Body as _, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use poem::http::uri::Scheme;
use poem::http::{HeaderValue, Method, StatusCode, Version, header};
use poem::web::{LocalAddr, RemoteAddr};
use poem::{Addr, Request, Response};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

use super::connection_activity::RequestGuard;
use super::connection_limits::ConnectionLimits;
use super::crowd::Crowd;
use super::handler::Handler;
use super::head_memory::HeadMemory;
use super::host::check_host;
use super::http_builder::{MAX_HEADER_FIELDS, http_builder};
use super::request_body::read_in_background;
use super::shutdown_signals::ShutdownSignals;
use super::stream_executor::StreamExecutor;
use super::streams::ResponseTimer;
use super::timed_io::{TcpBased, TimedIo};
use super::tls::ServerTls;
use super::tracked_body::TrackedBody;
use super::watchdog::Watchdog;

/// Time for a connection that is being closed to send the rest and GOAWAY.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

const CLOSE: HeaderValue = HeaderValue::from_static("close");

/// The value of `X-Content-Type-Options` in every response: browsers take the content type as given.
pub(crate) const NOSNIFF: HeaderValue = HeaderValue::from_static("nosniff");

/// A connection that has been accepted.
pub(super) struct ClientConnection<H> {
    pub(super) handler: Arc<H>,
    pub(super) limits: ConnectionLimits,
    pub(super) signals: ShutdownSignals,
    pub(super) peer: SocketAddr,
    /// The open connections of the listener; `None` if the peer need not make room for others.
    pub(super) crowd: Option<Arc<Crowd>>,
    /// Whether the peer limits the requests of its own clients.
    pub(super) is_trusted_proxy: bool,
}

impl<H: Handler> ClientConnection<H> {
    /// Serves requests until the connection is closed.
    pub(super) async fn serve(self, stream: TcpStream, tls: Option<ServerTls>) {
        let kill = self.signals.kill.clone();
        kill.run_until_cancelled(async {
            // Small responses must not wait for the peer's acknowledgements.
            let _ = stream.set_nodelay(true);
            let local = stream.local_addr().unwrap_or(self.peer);
            let Some(tls) = tls else { return self.serve_http(stream, local, Scheme::HTTP).await };
            tokio::select! {
                accepted = tls.accept(stream) => match accepted {
                    Ok(stream) => self.serve_http(stream, local, Scheme::HTTPS).await,
                    Err(error) => tracing::debug!(%error, "a TLS handshake failed"),
                },
                () = self.signals.stop.cancelled() => {}
                () = self.must_make_room() => {}
            }
        })
        .await;
    }

    /// Completes when a handshake has taken too long for a crowd.
    async fn must_make_room(&self) {
        match &self.crowd {
            Some(crowd) => crowd.is_impatient().await,
            None => std::future::pending().await,
        }
    }

    async fn serve_http<S>(self, stream: S, local: SocketAddr, scheme: Scheme)
    where
        S: TcpBased + AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let watchdog = Watchdog::new(&self.limits, self.crowd.clone());
        let (stop, last_response) = (self.signals.stop.clone(), CancellationToken::new());
        let io = TokioIo::new(TimedIo::new(stream, Arc::clone(&watchdog)));
        let service = Arc::new(Service {
            connection: self,
            watchdog: Arc::clone(&watchdog),
            heads: HeadMemory::default(),
            last_response: last_response.clone(),
            local,
            scheme,
        });
        let service = service_fn(move |request| Arc::clone(&service).respond(request));
        let builder = http_builder(StreamExecutor(Arc::clone(&watchdog)));
        let connection = builder.serve_connection(io, service);
        tokio::pin!(connection);
        tokio::select! {
            result = connection.as_mut() => return log_failure(result),
            () = stop.cancelled() => {}
            () = last_response.cancelled() => {}
            () = watchdog.expired() => {
                connection.as_mut().graceful_shutdown();
                // A client that does not take GOAWAY either is cut off.
                match tokio::time::timeout(CLOSE_TIMEOUT, connection).await {
                    Ok(result) => log_failure(result),
                    Err(_) => watchdog.cut_off(),
                }
                return;
            }
        }
        connection.as_mut().graceful_shutdown();
        // Requests in progress may finish. Incomplete heads, responses that the client does not
        // take and clients that ignore GOAWAY do not hold up the shutdown.
        tokio::select! {
            result = connection => log_failure(result),
            () = watchdog.stalled_for(CLOSE_TIMEOUT) => watchdog.cut_off(),
            () = watchdog.expired() => watchdog.cut_off(),
        }
    }
}

type HttpResponse = hyper::Response<BoxBody<Bytes, io::Error>>;

/// Keeps a request in progress for the watchdog.
enum InProgress {
    Http1(RequestGuard),
    Stream(Arc<ResponseTimer>),
}

/// Answers the requests of one connection.
struct Service<H> {
    connection: ClientConnection<H>,
    watchdog: Arc<Watchdog>,
    heads: HeadMemory,
    last_response: CancellationToken,
    local: SocketAddr,
    scheme: Scheme,
}

impl<H: Handler> Service<H> {
    /// Answers a request, which counts as in progress for the watchdog meanwhile.
    fn respond(
        self: Arc<Self>,
        request: hyper::Request<Incoming>,
    ) -> impl Future<Output = Result<HttpResponse, Infallible>> + use<H> {
        // Not in the future, which may be dropped before it is polled.
        let in_progress = match request.version() {
            Version::HTTP_2 => InProgress::Stream(self.watchdog.open_stream()),
            _ => InProgress::Http1(self.watchdog.begin_http1_request()),
        };
        // On HTTP/1.1 one request is in progress at a time, and a trusted proxy bounds its clients.
        let is_bounded = request.version() == Version::HTTP_2 && !self.connection.is_trusted_proxy;
        let head = is_bounded.then(|| self.heads.reserve(&request));
        let request = (!matches!(head, Some(None))).then_some(request);
        async move {
            // Boxed, and not before its turn comes: the library keeps room for this future beside
            // the response, and a client may send many requests at once.
            let mut response = match request {
                Some(request) => Box::pin(self.handle(request, &in_progress)).await,
                None => Response::from(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE).into(),
            };
            response.headers_mut().entry(header::X_CONTENT_TYPE_OPTIONS).or_insert(NOSNIFF);
            drop(head);
            Ok(match in_progress {
                InProgress::Stream(timer) => {
                    timer.begin_sending();
                    response.map(|body| TrackedBody::new(body, timer).boxed())
                }
                InProgress::Http1(guard) => {
                    drop(guard);
                    response
                }
            })
        }
    }

    async fn handle(
        &self,
        request: hyper::Request<Incoming>,
        in_progress: &InProgress,
    ) -> HttpResponse {
        if request.headers().len() > MAX_HEADER_FIELDS {
            return Response::from(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE).into();
        }
        let host = check_host(&request);
        let (version, is_head) = (request.version(), request.method() == Method::HEAD);
        let has_body = !request.body().is_end_stream();
        let mut request = Request::from((
            request,
            LocalAddr(Addr::SocketAddr(self.local)),
            RemoteAddr(Addr::SocketAddr(self.connection.peer)),
            self.scheme.clone(),
        ));
        if let InProgress::Stream(timer) = in_progress
            && has_body
        {
            let (body, task) = read_in_background(request.take_body());
            request.set_body(body);
            timer.keep(task);
        }
        let mut response = self.connection.handler.handle(request, host).await;
        // The HTTP library omits the body of a HEAD response on HTTP/1.1 only.
        if is_head && version == Version::HTTP_2 {
            response.take_body();
        }
        // As the library does for malformed heads, the connection is closed on HTTP/1.1.
        if self.connection.signals.drain.is_cancelled()
            || self.watchdog.must_make_room()
            || (host.is_err() && version != Version::HTTP_2)
        {
            self.mark_connection_close(version, &mut response);
        }
        response.into()
    }

    /// Tells the client to send its next request on another connection: by a header on HTTP/1.1,
    /// by GOAWAY on HTTP/2.
    fn mark_connection_close(&self, version: Version, response: &mut Response) {
        if version == Version::HTTP_2 {
            self.last_response.cancel();
        } else {
            response.headers_mut().insert(header::CONNECTION, CLOSE);
        }
    }
}

fn log_failure(result: Result<(), Box<dyn std::error::Error + Send + Sync>>) {
    if let Err(error) = result {
        tracing::debug!(error = &*error, "a connection failed");
    }
}
