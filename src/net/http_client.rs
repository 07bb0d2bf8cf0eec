//! An HTTP client for other services. Requests are bounded in time and size, redirects are not
//! followed, and certificates are always verified.

use std::error::Error;
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

use super::tls::{self, AuthoritiesError, is_untrusted_certificate};

/// The longest response body that is read.
const MAX_BODY_BYTES: usize = 1024 * 1024;

/// Why a request has no usable response.
#[derive(Debug, Error)]
pub enum HttpError {
    /// The address is not a valid HTTP URL.
    #[error("not a usable URL")]
    Url(#[from] hyper::http::Error),
    /// There is no connection to the server, or its certificate is not trusted.
    #[error("cannot connect to the server")]
    Unreachable(#[from] hyper_util::client::legacy::Error),
    /// The response ended early, or is longer than [`MAX_BODY_BYTES`].
    #[error("the response ended early, or is longer than {MAX_BODY_BYTES} bytes")]
    Body(#[source] Box<dyn Error + Send + Sync>),
    /// There was no complete response in time.
    #[error("no response within {} s", .0.as_secs())]
    Timeout(Duration),
    /// The response has a status other than 200.
    #[error("the response has the status {0}")]
    Status(StatusCode),
    /// The response body is not the expected JSON.
    #[error("the response is not the expected JSON (line {line}, column {column})")]
    Json {
        /// The line of the error, from 1. The text is not repeated, since it may hold a secret.
        line: usize,
        /// The column of the error.
        column: usize,
    },
}

impl HttpError {
    /// Whether the server's certificate is not trusted, or is for another name.
    pub fn is_untrusted(&self) -> bool {
        is_untrusted_certificate(self)
    }
}

/// Sends requests. Cheap to clone; clones share their connections.
#[derive(Debug, Clone)]
pub struct HttpClient {
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    timeout: Duration,
}

impl HttpClient {
    /// A client that trusts the authorities in `ca_file`, or else the system's. Each request may
    /// take `timeout`, from connecting to the end of the response.
    ///
    /// # Errors
    /// [`AuthoritiesError`].
    pub fn new(ca_file: Option<&Path>, timeout: Duration) -> Result<Self, AuthoritiesError> {
        let https = HttpsConnectorBuilder::new()
            .with_tls_config(tls::client(ca_file)?)
            .https_or_http()
            .enable_http1()
            .build();
        let client = Client::builder(TokioExecutor::new()).build(https);
        Ok(Self { client, timeout })
    }

    /// Sends `request` and reads the whole response, whatever its status.
    ///
    /// # Errors
    /// [`HttpError`] other than `Status` and `Json`.
    pub async fn send(&self, request: Request<Full<Bytes>>) -> Result<Response<Bytes>, HttpError> {
        let exchange = async {
            let (head, body) = self.client.request(request).await?.into_parts();
            let body = Limited::new(body, MAX_BODY_BYTES).collect().await;
            let body = body.map_err(HttpError::Body)?.to_bytes();
            Ok(Response::from_parts(head, body))
        };
        tokio::time::timeout(self.timeout, exchange)
            .await
            .unwrap_or(Err(HttpError::Timeout(self.timeout)))
    }

    /// Reads the JSON document at `url`.
    ///
    /// # Errors
    /// [`HttpError`].
    pub async fn get_json<T: serde::de::DeserializeOwned>(
        &self,
        url: &str,
    ) -> Result<T, HttpError> {
        let request = Request::get(url).header(header::ACCEPT, "application/json");
        let response = self.send(request.body(Full::default())?).await?;
        if response.status() != StatusCode::OK {
            return Err(HttpError::Status(response.status()));
        }
        serde_json::from_slice(response.body())
            .map_err(|error| HttpError::Json { line: error.line(), column: error.column() })
    }
}
