//! TLS: both protocols by ALPN, handshakes that hang, certificates that change.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use gene_registry::app;
use gene_registry::config::Config;
use http_body_util::{BodyExt, Empty};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::{ControlledUpstream, TIMEOUT, replica_over};
use crate::support::authority::{Authority, EXPIRED, VALID};
use crate::support::raw::{address, head, parse, until_closed};
use crate::support::replace_file;
use crate::support::replica::{Replica, config};
use crate::support::wait::eventually;

const SERVER_NAME: &str = "127.0.0.1";
const HANDSHAKE_TIMEOUT: Duration = Duration::from_millis(1_500);

type CertificateFiles = (PathBuf, PathBuf);

fn configure_tls(files: &CertificateFiles) -> impl FnOnce(&mut Config) {
    let files = files.clone();
    move |config| {
        (config.server.tls.cert_file, config.server.tls.key_file) = (Some(files.0), Some(files.1));
        config.server.tls.handshake_timeout_ms = HANDSHAKE_TIMEOUT.as_millis() as u64;
    }
}

/// A replica that serves TLS, and a key for it.
async fn replica(files: &CertificateFiles) -> (Replica, String) {
    let (upstream, key) = ControlledUpstream::new();
    (replica_over(upstream, configure_tls(files)).await, key)
}

/// A handshake by a client that trusts this authority alone.
async fn handshake(
    replica: &Replica,
    authority: &Authority,
    protocols: &[&str],
) -> std::io::Result<TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(&authority.file).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
    let stream = TcpStream::connect(address(&replica.base)).await?;
    let name = ServerName::try_from(SERVER_NAME).unwrap();
    timeout(TIMEOUT, TlsConnector::from(Arc::new(config)).connect(name, stream)).await?
}

/// The certificate that the server presents to a new connection.
async fn presented_certificate(
    replica: &Replica,
    authority: &Authority,
) -> CertificateDer<'static> {
    let stream = handshake(replica, authority, &[]).await.unwrap();
    stream.get_ref().1.peer_certificates().unwrap()[0].clone().into_owned()
}

fn certificate(path: &Path) -> CertificateDer<'static> {
    CertificateDer::from_pem_file(path).unwrap()
}

fn request(replica: &Replica, key: &str, version: hyper::Version) -> hyper::Request<Empty<Bytes>> {
    let uri = format!("{}/genes?limit=1", replica.base);
    let request = hyper::Request::get(uri).version(version).header("X-API-Key", key);
    let request = match version {
        hyper::Version::HTTP_2 => request,
        _ => request.header("Host", "test"),
    };
    request.body(Empty::new()).unwrap()
}

/// The status and the length of the response to one request on a connection.
async fn send_request(replica: &Replica, key: &str, stream: TlsStream<TcpStream>) -> (u16, usize) {
    let alpn = stream.get_ref().1.alpn_protocol().map(<[u8]>::to_vec);
    let io = TokioIo::new(stream);
    let response = if alpn.as_deref() == Some(b"h2") {
        let (mut sender, connection) =
            hyper::client::conn::http2::handshake(TokioExecutor::new(), io).await.unwrap();
        tokio::spawn(connection);
        sender.send_request(request(replica, key, hyper::Version::HTTP_2)).await.unwrap()
    } else {
        let (mut sender, connection) = hyper::client::conn::http1::handshake(io).await.unwrap();
        tokio::spawn(connection);
        sender.send_request(request(replica, key, hyper::Version::HTTP_11)).await.unwrap()
    };
    let status = response.status().as_u16();
    (status, response.into_body().collect().await.unwrap().to_bytes().len())
}

#[tokio::test(flavor = "multi_thread")]
async fn alpn_selects_http1_or_http2() {
    let authority = Authority::new();
    let (replica, key) = replica(&authority.certify(SERVER_NAME, VALID)).await;
    assert!(replica.base.starts_with("https://"), "{}", replica.base);

    let mut lengths = Vec::new();
    for (offered, agreed) in [
        (&["h2", "http/1.1"][..], Some(&b"h2"[..])),
        (&["http/1.1"], Some(b"http/1.1")),
        (&[], None),
    ] {
        let stream = handshake(&replica, &authority, offered).await.unwrap();
        assert_eq!(stream.get_ref().1.alpn_protocol(), agreed, "{offered:?}");
        let (status, length) = send_request(&replica, &key, stream).await;
        assert_eq!(status, 200, "{offered:?}");
        lengths.push(length);
    }
    lengths.dedup();
    assert_eq!(lengths.len(), 1, "the same response: {lengths:?}");
    let unknown = handshake(&replica, &authority, &["spdy/3"]).await;
    assert!(unknown.is_err(), "nothing in common");
    let plain = head("GET", "/v1/genes", &[("X-API-Key", &key)]);
    let mut stream = TcpStream::connect(address(&replica.base)).await.unwrap();
    stream.write_all(&plain).await.unwrap();
    let response = until_closed(&mut stream).await;
    assert!(!response.starts_with(b"HTTP"), "no plain-text response");
}

#[tokio::test(flavor = "multi_thread")]
async fn responses_have_hsts_if_it_is_configured() {
    let authority = Authority::new();
    let files = authority.certify(SERVER_NAME, VALID);
    let (upstream, _) = ControlledUpstream::new();
    let replica = replica_over(upstream, |config| {
        configure_tls(&files)(config);
        config.server.hsts_max_age_s = 3_600;
        config.server.trusted_proxies = vec!["127.0.0.1".parse().unwrap()];
    })
    .await;
    let hsts = async |headers: &[(&str, &str)]| {
        let mut stream = handshake(&replica, &authority, &["http/1.1"]).await.unwrap();
        stream.write_all(&head("GET", "/none", headers)).await.unwrap();
        let mut bytes = Vec::new();
        // An end without a TLS alert is an error after all bytes.
        drop(timeout(TIMEOUT, stream.read_to_end(&mut bytes)).await.unwrap());
        parse(&bytes).header("strict-transport-security").to_owned()
    };
    for (headers, expected) in [
        (&[][..], "max-age=3600"),
        (&[("X-Forwarded-Proto", "https")], "max-age=3600"),
        // The client's connection to the proxy counts.
        (&[("X-Forwarded-Proto", "http")], ""),
        (&[("Forwarded", "for=192.0.2.1;proto=http")], ""),
    ] {
        assert_eq!(hsts(headers).await, expected, "{headers:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn hanging_handshakes_delay_nobody_and_time_out() {
    let authority = Authority::new();
    let (replica, key) = replica(&authority.certify(SERVER_NAME, VALID)).await;
    let begun = Instant::now();
    let mut hanging = Vec::new();
    for n in 0..200 {
        let mut stream = TcpStream::connect(address(&replica.base)).await.unwrap();
        if n % 2 == 0 {
            // The beginning of a ClientHello.
            stream.write_all(&[22, 3, 1, 2, 0, 1, 0]).await.unwrap();
        }
        hanging.push(stream);
    }

    let stream = handshake(&replica, &authority, &["h2"]).await.unwrap();
    assert_eq!(send_request(&replica, &key, stream).await.0, 200);

    for stream in &mut hanging {
        until_closed(stream).await;
    }
    assert!(begun.elapsed() >= HANDSHAKE_TIMEOUT, "{:?}", begun.elapsed());
    let stream = handshake(&replica, &authority, &["http/1.1"]).await.unwrap();
    assert_eq!(send_request(&replica, &key, stream).await.0, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_certificate_is_loaded_and_a_broken_one_is_not() {
    let authority = Authority::new();
    let (first, second) =
        (authority.certify(SERVER_NAME, VALID), authority.certify(SERVER_NAME, (2021, 4001)));
    let (replica, key) = replica(&first).await;
    let (one, two) = (certificate(&first.0), certificate(&second.0));
    let reloads = async |result: &str| {
        let series = format!("gene_registry_certificate_reloads_total{{result=\"{result}\"}}");
        replica.metric(&series).await.unwrap_or(0.0)
    };
    let expiry = "gene_registry_certificate_expiry_timestamp_seconds";
    eventually(TIMEOUT, "its expiry is shown", || async { replica.metric(expiry).await.is_some() })
        .await;
    let ends = replica.metric(expiry).await.unwrap();
    assert!(ends > 6.4e10, "in the year 4000: {ends}");
    let kept_open = handshake(&replica, &authority, &["http/1.1"]).await.unwrap();
    assert_eq!(presented_certificate(&replica, &authority).await, one);

    // Only one of the two files is replaced: certificate and key don't match.
    replace_file(&first.0, &std::fs::read(&second.0).unwrap());
    eventually(TIMEOUT, "the pair is refused", || async { reloads("failed").await == 1.0 }).await;
    assert_eq!(presented_certificate(&replica, &authority).await, one);
    replace_file(&first.1, &std::fs::read(&second.1).unwrap());
    eventually(TIMEOUT, "the new certificate is presented", || async {
        presented_certificate(&replica, &authority).await == two
    })
    .await;
    eventually(TIMEOUT, "its expiry is shown", || async {
        replica.metric(expiry).await.is_some_and(|new| new > ends)
    })
    .await;
    assert_eq!(
        send_request(&replica, &key, kept_open).await.0,
        200,
        "existing connections continue"
    );

    for (n, broken) in [&b"-----BEGIN CERTIFICATE-----\nrubbish"[..], b""].iter().enumerate() {
        replace_file(&first.0, broken);
        let failed = 2.0 + n as f64;
        eventually(TIMEOUT, "the certificate is refused", || async {
            reloads("failed").await == failed
        })
        .await;
        assert_eq!(presented_certificate(&replica, &authority).await, two);
    }
    std::fs::remove_file(&first.0).unwrap();
    eventually(TIMEOUT, "a missing file too", || async { reloads("failed").await == 4.0 }).await;
    assert_eq!(presented_certificate(&replica, &authority).await, two);
    assert_eq!(reloads("ok").await, 1.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_with_invalid_files_names_them_and_an_expired_certificate_is_used() {
    let authority = Authority::new();
    let (good, other) =
        (authority.certify(SERVER_NAME, VALID), authority.certify(SERVER_NAME, VALID));
    let missing = good.0.with_file_name("missing.pem");
    for (cert, key, named) in [
        (&good.0, &other.1, &good.0),
        (&missing, &good.1, &missing),
        (&good.0, &missing, &missing),
        (&good.1, &good.1, &good.1),
        (&good.0, &good.0, &good.0),
    ] {
        let mut config = config("", None);
        configure_tls(&(cert.clone(), key.clone()))(&mut config);
        let error = app::start(&config, ControlledUpstream::new().0)
            .await
            .expect_err("no start")
            .to_string();
        assert!(error.starts_with("server.tls: "), "{error}");
        assert!(error.contains(&named.display().to_string()), "{error}");
    }

    let (replica, _) = replica(&authority.certify(SERVER_NAME, EXPIRED)).await;
    let expiry = "gene_registry_certificate_expiry_timestamp_seconds";
    eventually(TIMEOUT, "it expired with 2020", || async {
        replica.metric(expiry).await == Some(1_609_459_200.0)
    })
    .await;
    assert!(handshake(&replica, &authority, &[]).await.is_err(), "clients refuse it");
}
