//! The floor: the least that an HTTP response can cost here. Serves files from memory, by path and
//! query, with no other logic; also the origin behind the proxying peers.
//!     floor hyper|poem ADDRESS TARGET=FILE...
//!
//! `hyper` is the bare library, `poem` a bare handler of the framework on the same accept loop.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use poem::http::uri::Scheme;
use poem::http::{HeaderValue, StatusCode, header};
use poem::web::{LocalAddr, RemoteAddr};
use poem::{Addr, Endpoint, Request, Response, Route};
use tokio::net::{TcpListener, TcpStream};

type StaticFiles = Vec<(String, Bytes)>;

#[tokio::main]
async fn main() {
    let mut arguments = std::env::args().skip(1);
    let mut next = || arguments.next().expect("hyper|poem ADDRESS TARGET=FILE...");
    let (kind, address): (_, SocketAddr) = (next(), next().parse().expect("an address"));
    let files: Arc<StaticFiles> = Arc::new(arguments.map(|pair| read(&pair)).collect());
    let listener = TcpListener::bind(address).await.expect("a free address");
    let poem = Arc::new(Route::new().at("/*", FileEndpoint(Arc::clone(&files))));
    loop {
        let (stream, peer) = listener.accept().await.expect("a connection");
        stream.set_nodelay(true).expect("no delay");
        match &*kind {
            "hyper" => drop(tokio::spawn(serve_bare(stream, Arc::clone(&files)))),
            _ => drop(tokio::spawn(serve_poem(stream, peer, Arc::clone(&poem)))),
        }
    }
}

fn read(pair: &str) -> (String, Bytes) {
    // A target may contain equals signs; the file names here do not.
    let (target, file) = pair.rsplit_once('=').expect("TARGET=FILE");
    (target.to_owned(), std::fs::read(file).expect("a file").into())
}

fn find(files: &StaticFiles, target: &str) -> Option<Bytes> {
    files.iter().find(|(known, _)| known == target).map(|(_, body)| body.clone())
}

async fn serve_bare(stream: TcpStream, files: Arc<StaticFiles>) {
    let service = service_fn(move |request: hyper::Request<Incoming>| {
        let target = request.uri().path_and_query().map_or("/", |target| target.as_str());
        let body = find(&files, target);
        let mut response = hyper::Response::new(Full::new(body.clone().unwrap_or_default()));
        let json = HeaderValue::from_static("application/json");
        response.headers_mut().insert(header::CONTENT_TYPE, json);
        if body.is_none() {
            *response.status_mut() = StatusCode::NOT_FOUND;
        }
        async move { Ok::<_, Infallible>(response) }
    });
    // An error here is a client that has disconnected.
    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}

struct FileEndpoint(Arc<StaticFiles>);

impl Endpoint for FileEndpoint {
    type Output = Response;

    async fn call(&self, request: Request) -> poem::Result<Response> {
        let target = request.uri().path_and_query().map_or("/", |target| target.as_str());
        Ok(match find(&self.0, target) {
            Some(body) => Response::builder().content_type("application/json").body(body),
            None => StatusCode::NOT_FOUND.into(),
        })
    }
}

async fn serve_poem(stream: TcpStream, peer: SocketAddr, route: Arc<Route>) {
    let service = service_fn(move |request: hyper::Request<Incoming>| {
        let route = Arc::clone(&route);
        let (local, remote) = (Addr::SocketAddr(peer), Addr::SocketAddr(peer));
        let request = Request::from((request, LocalAddr(local), RemoteAddr(remote), Scheme::HTTP));
        async move {
            let response = route.call(request).await.unwrap_or_else(|error| error.into_response());
            Ok::<_, Infallible>(hyper::Response::from(response))
        }
    });
    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}
