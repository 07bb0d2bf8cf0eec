//! Spans over OTLP, as a collector receives them.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::trace::v1::{Span, span::SpanKind, status::StatusCode};
use prost::Message as _;
use tokio::net::TcpListener;
use tokio::time::Instant;

use crate::support::free_port;
use crate::support::postgres::PostgresServer;
use crate::support::proxy::{FaultProxy, Mode};
use crate::support::replica::{READER, Replica, config, long_timeouts, sample};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT: &str = "00f067aa0ba902b7";

/// A collector that records batches of spans.
struct Collector {
    endpoint: String,
    batches: Arc<Mutex<Vec<Bytes>>>,
}

impl Collector {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let batches = Arc::new(Mutex::new(Vec::new()));
        let taken = Arc::clone(&batches);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let taken = Arc::clone(&taken);
                let take = service_fn(move |request: hyper::Request<hyper::body::Incoming>| {
                    let taken = Arc::clone(&taken);
                    async move {
                        assert_eq!(request.uri().path(), "/v1/traces");
                        assert_eq!(request.headers()["content-type"], "application/x-protobuf");
                        let body = request.into_body().collect().await.unwrap().to_bytes();
                        taken.lock().unwrap().push(body);
                        Ok::<_, Infallible>(hyper::Response::new(Full::new(Bytes::new())))
                    }
                });
                tokio::spawn(async move {
                    let server = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new());
                    // Ignored: the client may close the connection.
                    drop(server.serve_connection(TokioIo::new(stream), take).await);
                });
            }
        });
        Self { endpoint, batches }
    }

    fn spans(&self) -> Vec<Span> {
        let batches = self.batches.lock().unwrap();
        let requests = batches.iter().map(|batch| ExportTraceServiceRequest::decode(&batch[..]));
        let resources = requests.flat_map(|request| request.unwrap().resource_spans);
        resources.flat_map(|one| one.scope_spans).flat_map(|one| one.spans).collect()
    }
}

fn attribute(span: &Span, name: &str) -> String {
    let found = span.attributes.iter().find(|one| one.key == name);
    format!("{:?}", found.unwrap_or_else(|| panic!("{name}: {span:?}")).value)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn each_request_is_one_span_in_its_callers_trace_without_any_key() {
    let collector = Collector::start().await;
    let database = sample(PostgresServer::shared().await).await;
    let key = database.new_key(100).await;
    let mut config = config(&database.url_as(READER), None);
    long_timeouts(&mut config);
    config.telemetry.otlp_endpoint = Some(collector.endpoint.clone());
    config.telemetry.sample_ratio = 1.0;
    let replica = Replica::start(&config).await;
    let send = async |id: &str, target: &str, flags: Option<&str>| {
        let traceparent = flags.map(|flags| format!("00-{TRACE}-{PARENT}-{flags}"));
        let mut headers = vec![("X-API-Key", key.as_str()), ("X-Request-Id", id)];
        headers.extend(traceparent.as_deref().map(|text| ("traceparent", text)));
        replica.raw("GET", target, &headers).await.status.as_u16()
    };
    let search = "/v1/genes?domain=secret-in-query";
    assert_eq!(send("sampled", search, Some("01")).await, 200);
    assert_eq!(send("not-sampled", search, Some("00")).await, 200);
    assert_eq!(send("alone", "/v1/genes/nonsense/phenotype", None).await, 400);

    replica.shutdown().await;

    let spans = collector.spans();
    let named = |id: &str| {
        let of_it = |span: &&Span| {
            attribute(span, "gene_registry.request_id").contains(&format!("\"{id}\""))
        };
        spans.iter().filter(of_it).collect::<Vec<_>>()
    };
    assert_eq!((spans.len(), named("not-sampled").len()), (2, 0), "{spans:#?}");
    let sampled = named("sampled")[0];
    assert_eq!(
        (hex(&sampled.trace_id), hex(&sampled.parent_span_id)),
        (TRACE.into(), PARENT.into())
    );
    assert_eq!(sampled.name, "GET /v1/genes");
    assert_eq!(sampled.kind, SpanKind::Server as i32);
    assert!(sampled.end_time_unix_nano > sampled.start_time_unix_nano);
    for (name, value) in [
        ("http.request.method", "GET"),
        ("http.route", "/v1/genes"),
        ("http.response.status_code", "200"),
        ("gene_registry.cache", "miss"),
    ] {
        assert!(attribute(sampled, name).contains(value), "{sampled:?}");
    }
    let alone = named("alone")[0];
    assert_eq!(
        (alone.name.as_str(), alone.parent_span_id.len()),
        ("GET /v1/genes/{id}/phenotype", 0)
    );
    assert_ne!(hex(&alone.trace_id), TRACE);
    let is_error = |span: &Span| {
        span.status.as_ref().is_some_and(|status| status.code == StatusCode::Error as i32)
    };
    assert!(!is_error(alone), "a client's error is no error of the service");
    for batch in collector.batches.lock().unwrap().iter() {
        let text = String::from_utf8_lossy(batch);
        for secret in [key.as_str(), &key[..11], "secret-in-query", "nonsense"] {
            assert!(!text.contains(secret), "{secret}: {text}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unavailable_or_hanging_collector_affects_no_request() {
    let database = sample(PostgresServer::shared().await).await;
    let key = database.new_key(100_000).await;
    let collector = Collector::start().await;
    let target = collector.endpoint.strip_prefix("http://").unwrap();
    let hanging = FaultProxy::start(target).await;
    hanging.set(Mode::Stall).await;
    let refused = format!("127.0.0.1:{}", free_port());
    for endpoint in [&hanging.addr().to_string(), &refused] {
        let mut config = config(&database.url_as(READER), None);
        long_timeouts(&mut config);
        config.telemetry.otlp_endpoint = Some(format!("http://{endpoint}"));
        config.telemetry.sample_ratio = 1.0;
        let replica = Replica::start(&config).await;
        // More spans than the queue holds.
        for _ in 0..3000 {
            assert_eq!(replica.get("/genes", Some(&key)).await.status, 200);
        }
        let begun = Instant::now();
        replica.shutdown().await;
        assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
    }
    assert!(hanging.accepted() > 0, "the export was tried");
    assert_eq!(collector.spans().len(), 0);
}
