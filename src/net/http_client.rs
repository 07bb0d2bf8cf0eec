//! Requests to others over HTTP: bounded in time and size, redirects not followed, certificates
//! always verified.

use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::{Request, Response, StatusCode, header};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use thiserror::Error;
use tokio::time::timeout;

use super::tls::{self, AuthoritiesError};

/// An answer may be this long.
const MAX_BODY_BYTES: usize = 1024 * 1024;

/// Why there is no answer.
#[derive(Debug, Error)]
pub enum HttpError {
    /// The address is no URL that can be asked.
    #[error("not a usable URL")]
    Url(#[from] hyper::http::Error),
    /// The other side can't be reached, or its certificate is not trusted.
    #[error("it cannot be reached")]
    Unreachable(#[from] hyper_util::client::legacy::Error),
    /// The answer broke off, or is too long.
    #[error("the answer broke off, or is longer than {MAX_BODY_BYTES} bytes")]
    Body(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// It took too long.
    #[error("no answer within {} s", .0.as_secs())]
    Timeout(Duration),
    /// The answer is none that was asked for.
    #[error("the answer has the status {0}")]
    Status(StatusCode),
    /// The answer is not what was asked for.
    #[error("the answer is not the JSON that was asked for (line {line}, column {column})")]
    Json {
        /// Where it is wrong; its text is not repeated, for it may hold a secret.
        line: usize,
        /// Where in the line.
        column: usize,
    },
}

impl HttpError {
    /// Whether the other side's certificate is not trusted, or not its own.
    pub fn is_untrusted(&self) -> bool {
        let mut next: Option<&(dyn std::error::Error + 'static)> = Some(self);
        while let Some(error) = next {
            if let Some(rustls::Error::InvalidCertificate(_)) = error.downcast_ref() {
                return true;
            }
            // An I/O error is not the source of what it wraps: it stands in its place.
            let wrapped = error.downcast_ref::<std::io::Error>().and_then(|error| error.get_ref());
            next = match wrapped {
                Some(wrapped) => Some(wrapped),
                None => error.source(),
            };
        }
        false
    }
}

/// Asks others. Cheap to clone; keeps connections.
#[derive(Debug, Clone)]
pub struct HttpClient {
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    patience: Duration,
}

impl HttpClient {
    /// A client that trusts `ca_file`'s authorities, or else the system's, and waits `patience`
    /// for a whole answer.
    ///
    /// # Errors
    /// [`AuthoritiesError`].
    pub fn new(ca_file: Option<&Path>, patience: Duration) -> Result<Self, AuthoritiesError> {
        let https = HttpsConnectorBuilder::new()
            .with_tls_config(tls::client(ca_file)?)
            .https_or_http()
            .enable_http1()
            .build();
        let client = Client::builder(TokioExecutor::new()).build(https);
        Ok(Self { client, patience })
    }

    /// The answer, read whole, whatever its status.
    ///
    /// # Errors
    /// [`HttpError`].
    pub async fn send(&self, request: Request<Full<Bytes>>) -> Result<Response<Bytes>, HttpError> {
        let exchange = async {
            let (head, body) = self.client.request(request).await?.into_parts();
            let body = Limited::new(body, MAX_BODY_BYTES).collect().await;
            let body = body.map_err(HttpError::Body)?.to_bytes();
            Ok(Response::from_parts(head, body))
        };
        timeout(self.patience, exchange).await.unwrap_or(Err(HttpError::Timeout(self.patience)))
    }

    /// A document: JSON that is answered with 200.
    ///
    /// # Errors
    /// [`HttpError`].
    pub async fn get_json<T: serde::de::DeserializeOwned>(
        &self,
        url: &str,
    ) -> Result<T, HttpError> {
        let request = Request::get(url).header(header::ACCEPT, "application/json");
        let answer = self.send(request.body(Full::default())?).await?;
        if answer.status() != StatusCode::OK {
            return Err(HttpError::Status(answer.status()));
        }
        serde_json::from_slice(answer.body())
            .map_err(|error| HttpError::Json { line: error.line(), column: error.column() })
    }
}
