//! One connection, from its handshake to its end.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt;
use http_body_util::combinators::BoxBody;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use poem::http::uri::Scheme;
use poem::http::{HeaderValue, Method, StatusCode, Version, header};
use poem::web::{LocalAddr, RemoteAddr};
use poem::{Addr, Request, Response};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

use super::http::{MAX_HEADER_FIELDS, http};
use super::streams::{ResponseTimer, StreamExecutor};
use super::timed_io::TimedIo;
use super::tracked_body::TrackedBody;
use super::watchdog::{Answering, Watchdog};
use super::{Handler, Limits, Tls};

/// How long a connection that is being closed may take to send the rest and GOAWAY.
const GOODBYE: Duration = Duration::from_secs(1);

const CLOSE: HeaderValue = HeaderValue::from_static("close");

/// The steps of a listener's shutdown.
#[derive(Debug, Clone, Default)]
pub(super) struct ShutdownSignals {
    /// Each response is the last one on its connection.
    pub(super) drain: CancellationToken,
    /// Connections end as soon as the requests in progress on them are answered.
    pub(super) stop: CancellationToken,
    /// Connections end at once.
    pub(super) kill: CancellationToken,
}

/// A connection that has been accepted.
pub(super) struct Connection<H> {
    pub(super) handler: Arc<H>,
    pub(super) limits: Limits,
    pub(super) signals: ShutdownSignals,
    pub(super) peer: SocketAddr,
}

impl<H: Handler> Connection<H> {
    /// Serves it to its end.
    pub(super) async fn serve(self, stream: TcpStream, tls: Option<Tls>) {
        let kill = self.signals.kill.clone();
        kill.run_until_cancelled(async {
            // Small answers must not wait for the peer's acknowledgements.
            let _ = stream.set_nodelay(true);
            let local = stream.local_addr().unwrap_or(self.peer);
            let Some(tls) = tls else { return self.speak(stream, local, Scheme::HTTP).await };
            let stop = self.signals.stop.clone();
            match stop.run_until_cancelled(tls.accept(stream)).await {
                Some(Ok(stream)) => self.speak(stream, local, Scheme::HTTPS).await,
                Some(Err(error)) => tracing::debug!(%error, "a handshake failed"),
                None => {}
            }
        })
        .await;
    }

    async fn speak<S>(self, stream: S, local: SocketAddr, scheme: Scheme)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let watchdog = Watchdog::new(&self.limits);
        let (stop, last_answer) = (self.signals.stop.clone(), CancellationToken::new());
        let io = TokioIo::new(TimedIo::new(stream, Arc::clone(&watchdog)));
        let service = Arc::new(Service {
            handler: self.handler,
            drain: self.signals.drain,
            last_answer: last_answer.clone(),
            local,
            peer: self.peer,
            scheme,
        });
        let timed_by = Arc::clone(&watchdog);
        let service = service_fn(move |request| timed(&timed_by, Arc::clone(&service), request));
        let builder = http(StreamExecutor(Arc::clone(&watchdog)));
        let connection = builder.serve_connection(io, service);
        tokio::pin!(connection);
        tokio::select! {
            ended = connection.as_mut() => return report(ended),
            () = stop.cancelled() => {}
            () = last_answer.cancelled() => {}
            () = watchdog.expired() => {
                connection.as_mut().graceful_shutdown();
                // A client that does not take GOAWAY either is cut off.
                if let Ok(ended) = tokio::time::timeout(GOODBYE, connection).await {
                    report(ended);
                }
                return;
            }
        }
        connection.as_mut().graceful_shutdown();
        // Requests in progress may finish. Heads that are not whole do not hold up the shutdown,
        // nor do responses that the client does not take, nor clients that do not leave.
        tokio::select! {
            ended = connection => report(ended),
            () = watchdog.stalled_for(GOODBYE) => {}
            () = watchdog.expired() => {}
        }
    }
}

type Answer = hyper::Response<BoxBody<Bytes, io::Error>>;

/// Answers a request, with the watchdog told that it is in progress.
fn timed<H: Handler>(
    watchdog: &Arc<Watchdog>,
    service: Arc<Service<H>>,
    request: hyper::Request<Incoming>,
) -> Pin<Box<impl Future<Output = Result<Answer, Infallible>> + use<H>>> {
    // Begun here: the future may be dropped before it is polled.
    let in_progress = match request.version() {
        Version::HTTP_2 => InProgress::Stream(watchdog.open_stream()),
        _ => InProgress::Http1(watchdog.begin_answer()),
    };
    // Boxed: the library keeps room for it beside the response, which may wait for a slow client.
    Box::pin(async move {
        let answer = service.answer(request).await;
        Ok(match in_progress {
            InProgress::Stream(timer) => {
                timer.begin_sending();
                answer.map(|body| TrackedBody::new(body, timer).boxed())
            }
            InProgress::Http1(answering) => {
                drop(answering);
                answer
            }
        })
    })
}

/// What keeps a request in progress for the watchdog.
enum InProgress {
    Http1(Answering),
    Stream(Arc<ResponseTimer>),
}

/// What answers the requests of one connection.
struct Service<H> {
    handler: Arc<H>,
    drain: CancellationToken,
    last_answer: CancellationToken,
    local: SocketAddr,
    peer: SocketAddr,
    scheme: Scheme,
}

impl<H: Handler> Service<H> {
    async fn answer(self: Arc<Self>, request: hyper::Request<Incoming>) -> Answer {
        if let Some(refusal) = refused_head(&request) {
            return refusal.into();
        }
        let (version, is_head) = (request.version(), request.method() == Method::HEAD);
        let request = Request::from((
            request,
            LocalAddr(Addr::SocketAddr(self.local)),
            RemoteAddr(Addr::SocketAddr(self.peer)),
            self.scheme.clone(),
        ));
        let mut response = self.handler.answer(request).await;
        // The HTTP library leaves bodies out on HTTP/1.1 alone.
        if is_head && version == Version::HTTP_2 {
            response.take_body();
        }
        if self.drain.is_cancelled() {
            self.mark_connection_close(version, &mut response);
        }
        response.into()
    }

    /// Tells the client to send its next request on another connection: by a header on HTTP/1.1,
    /// by GOAWAY on HTTP/2.
    fn mark_connection_close(&self, version: Version, response: &mut Response) {
        if version == Version::HTTP_2 {
            self.last_answer.cancel();
        } else {
            response.headers_mut().insert(header::CONNECTION, CLOSE);
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
    is_wrong.then(|| {
        let mut refusal = Response::from(StatusCode::BAD_REQUEST);
        refusal.headers_mut().insert(header::CONNECTION, CLOSE);
        refusal
    })
}

fn report(ended: Result<(), Box<dyn std::error::Error + Send + Sync>>) {
    if let Err(error) = ended {
        tracing::debug!(error = &*error, "a connection ended badly");
    }
}
