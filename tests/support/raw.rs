//! HTTP/1.1 by hand, for requests that a well-behaved client cannot send.

use std::time::Duration;

use reqwest::StatusCode;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::replica::{Replica, Response};

const READ_TIMEOUT: Duration = Duration::from_secs(20);

/// `host:port` of a URL.
pub(crate) fn address(url: &str) -> String {
    let url: reqwest::Url = url.parse().unwrap();
    format!("{}:{}", url.host_str().unwrap(), url.port().unwrap())
}

/// The head of a request that is the only one on its connection.
pub(crate) fn head(method: &str, target: &str, headers: &[(&str, &str)]) -> Vec<u8> {
    let mut head = format!("{method} {target} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n");
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str("\r\n");
    head.into_bytes()
}

/// Sends bytes on a new connection and reads the response to its end.
pub(crate) async fn exchange(address: &str, request: &[u8]) -> Response {
    let mut stream = TcpStream::connect(address).await.unwrap();
    // Ignored: a server may refuse a request before it has read all of it.
    drop(stream.write_all(request).await);
    response(&mut stream).await
}

/// Reads a response up to the end of the stream.
pub(crate) async fn response(stream: &mut TcpStream) -> Response {
    parse(&until_closed(stream).await)
}

/// Everything that the peer sends until it closes or resets; panics if it does neither.
pub(crate) async fn until_closed(stream: &mut TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    let read = async {
        let mut buffer = vec![0; 64 * 1024];
        while let Ok(length @ 1..) = stream.read(&mut buffer).await {
            bytes.extend_from_slice(&buffer[..length]);
        }
    };
    timeout(READ_TIMEOUT, read).await.expect("the peer closes the connection");
    bytes
}

/// Parses a response whose body ends with the bytes.
#[track_caller]
pub(crate) fn parse(bytes: &[u8]) -> Response {
    let text = String::from_utf8_lossy(bytes);
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no head: {text:?}"));
    let mut lines = head.split("\r\n");
    let status = lines.next().and_then(|line| line.split(' ').nth(1)?.parse::<u16>().ok());
    let mut headers = HeaderMap::new();
    for (name, value) in lines.filter_map(|line| line.split_once(':')) {
        let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
        headers.append(name, HeaderValue::from_str(value.trim()).unwrap());
    }
    let status = StatusCode::from_u16(status.unwrap_or_else(|| panic!("no status: {head:?}")));
    Response { status: status.unwrap(), headers, text: body.to_owned() }
}

impl Replica {
    /// Any method on any target of the public listener, exactly as given.
    pub(crate) async fn raw(
        &self,
        method: &str,
        target: &str,
        headers: &[(&str, &str)],
    ) -> Response {
        exchange(&address(&self.base), &head(method, target, headers)).await
    }

    /// GET of a target below `/v1`, exactly as given.
    pub(crate) async fn raw_get(&self, target: &str, key: &str) -> Response {
        self.raw("GET", &format!("/v1{target}"), &[("X-API-Key", key)]).await
    }
}
