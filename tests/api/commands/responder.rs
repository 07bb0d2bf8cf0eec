//! A server that is neither a replica nor a control listener.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_util::task::AbortOnDropHandle;

/// A server with the same response to every request.
pub(super) struct Responder {
    pub(super) url: String,
    _task: AbortOnDropHandle<()>,
}

impl Responder {
    pub(super) async fn start(head: &str, body: &str) -> Self {
        let length = body.len();
        let response = format!(
            "HTTP/1.1 {head}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
        );
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let task = tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let response = response.clone();
                tokio::spawn(async move {
                    // The whole request is in the first piece; a client may disconnect at any time.
                    let _ = stream.read(&mut [0; 16 * 1024]).await;
                    let _ = stream.write_all(response.as_bytes()).await;
                });
            }
        });
        Self { url, _task: AbortOnDropHandle::new(task) }
    }
}
