//! One connection, from its handshake to its end.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use poem::http::uri::Scheme;
use poem::http::{HeaderValue, Method, StatusCode, Version, header};
use poem::web::{LocalAddr, RemoteAddr};
use poem::{Addr, Request, Response};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

use super::sent::Sent;
use super::watchdog::{Watchdog, Watched};
use super::{Handler, Limits, Tls};

/// The head of a request may take this much, and hold this many fields.
const MAX_HEAD_BYTES: usize = 64 * 1024;
const MAX_HEADER_FIELDS: usize = 256;

/// Requests at once on one HTTP/2 connection.
const MAX_STREAMS: u32 = 128;

/// Streams that the other side has reset before we have looked at them, and that we have reset for
/// its faults: with one more the connection ends (CVE-2023-44487, CVE-2025-8671).
const MAX_PENDING_RESETS: usize = 20;
const MAX_OWN_RESETS: usize = 128;

/// Nobody has anything to send us but heads: what a body may take up before we refuse it.
const BODY_WINDOW: u32 = 64 * 1024;

/// Of an answer that is being sent, on one HTTP/2 stream.
const MAX_SEND_BUFFER: usize = 256 * 1024;

/// How long a connection that is being closed may take to say goodbye.
const GOODBYE: Duration = Duration::from_secs(1);

const CLOSE: HeaderValue = HeaderValue::from_static("close");

/// How a listener ends, step by step.
#[derive(Debug, Clone, Default)]
pub(super) struct Ending {
    /// Each answer is the last one on its connection.
    pub(super) drain: CancellationToken,
    /// Connections end as soon as what is under way on them is answered.
    pub(super) stop: CancellationToken,
    /// They end at once.
    pub(super) kill: CancellationToken,
}

/// A connection that has been accepted.
pub(super) struct Connection<H> {
    pub(super) handler: Arc<H>,
    pub(super) limits: Limits,
    pub(super) ending: Ending,
    pub(super) peer: SocketAddr,
}

impl<H: Handler> Connection<H> {
    /// Serves it to its end.
    pub(super) async fn serve(self, stream: TcpStream, tls: Option<Tls>) {
        let kill = self.ending.kill.clone();
        kill.run_until_cancelled(async {
            // Small answers must not wait for the peer's acknowledgements.
            let _ = stream.set_nodelay(true);
            let local = stream.local_addr().unwrap_or(self.peer);
            let Some(tls) = tls else { return self.speak(stream, local, Scheme::HTTP).await };
            let stop = self.ending.stop.clone();
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
        let watchdog = Watchdog::new(self.limits.head, self.limits.idle);
        let (stop, last_answer) = (self.ending.stop.clone(), CancellationToken::new());
        let io = TokioIo::new(Watched::new(stream, Arc::clone(&watchdog)));
        let service = Arc::new(Service {
            handler: self.handler,
            drain: self.ending.drain,
            last_answer: last_answer.clone(),
            local,
            peer: self.peer,
            scheme,
        });
        let watched = Arc::clone(&watchdog);
        let service = service_fn(move |request: hyper::Request<Incoming>| {
            let (version, watched) = (request.version(), Arc::clone(&watched));
            let answering = watched.begin(version);
            let answer = Arc::clone(&service).answer(request);
            async move {
                let answer = answer.await.map(|body| match version {
                    Version::HTTP_2 => Sent::new(body, watched.sends()).boxed(),
                    _ => body,
                });
                drop(answering);
                Ok::<_, Infallible>(answer)
            }
        });
        let builder = http();
        let connection = builder.serve_connection(io, service);
        tokio::pin!(connection);
        tokio::select! {
            ended = connection.as_mut() => return report(ended),
            () = stop.cancelled() => {}
            () = last_answer.cancelled() => {}
            () = watchdog.expired() => {
                connection.as_mut().graceful_shutdown();
                // Whoever does not take the goodbye either is cut off.
                if let Ok(ended) = tokio::time::timeout(GOODBYE, connection).await {
                    report(ended);
                }
                return;
            }
        }
        connection.as_mut().graceful_shutdown();
        // Requests under way may finish; heads that don't come don't hold up the end, nor do
        // answers that nobody takes, nor peers that have nothing to wait for and don't leave.
        tokio::select! {
            ended = connection => report(ended),
            () = watchdog.kept_in_vain_for(GOODBYE) => {}
            () = watchdog.expired() => {}
        }
    }
}

type Answer = hyper::Response<http_body_util::combinators::BoxBody<Bytes, std::io::Error>>;

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
            self.say_goodbye(version, &mut response);
        }
        response.into()
    }

    /// So that the client takes its next request elsewhere.
    fn say_goodbye(&self, version: Version, response: &mut Response) {
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

fn http() -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    // Our own watchdog measures heads and idleness, on both protocols.
    builder.http1().header_read_timeout(None).max_buf_size(MAX_HEAD_BYTES);
    // No `pipeline_flush`: with it the refusal of a broken head, whose bytes stay unread, is never
    // sent.
    builder.http1().max_headers(MAX_HEADER_FIELDS);
    builder
        .http2()
        // A head in so many CONTINUATION frames that they alone exceed this ends the connection.
        .max_header_list_size(MAX_HEAD_BYTES as u32)
        .max_concurrent_streams(MAX_STREAMS)
        .max_pending_accept_reset_streams(MAX_PENDING_RESETS)
        .max_local_error_reset_streams(MAX_OWN_RESETS)
        .initial_stream_window_size(BODY_WINDOW)
        .initial_connection_window_size(BODY_WINDOW)
        .max_send_buf_size(MAX_SEND_BUFFER);
    builder
}

fn report(ended: Result<(), Box<dyn std::error::Error + Send + Sync>>) {
    if let Err(error) = ended {
        tracing::debug!(error = &*error, "a connection ended badly");
    }
}
