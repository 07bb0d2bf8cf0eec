//! Exports spans by OpenTelemetry: protobuf over HTTP, in batches, from a bounded queue. Spans that do
//! not fit are dropped; the export never delays or fails a request.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use opentelemetry::trace::{
    Span as _, SpanContext, SpanId, SpanKind, Status, TraceContextExt, TraceFlags, TraceState,
    Tracer, TracerProvider,
};
use opentelemetry::{Context, KeyValue};
use opentelemetry_http::{HttpClient, HttpError, Request, Response};
use opentelemetry_otlp::{
    ExporterBuildError, Protocol, SpanExporter, WithExportConfig, WithHttpConfig,
};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{
    BatchConfigBuilder, BatchSpanProcessor, Sampler, SdkTracer, SdkTracerProvider, Span,
};
use tokio::runtime::Handle;

use super::request_metrics::{RequestLabels, UNMATCHED_ROUTE, method_label};
use super::trace_context::{TraceContext, TraceId};
use crate::config::TelemetryConfig;
use crate::sync::TaskPanicked;
use crate::sync::supervised::{contain, register};

/// Why spans cannot be sent.
pub type ExporterError = ExporterBuildError;

/// The name of the task that sends spans.
const TASK: &str = "trace_export";

/// Maximum number of queued spans.
const MAX_QUEUE: usize = 2048;

/// Maximum number of spans in a batch.
const MAX_BATCH: usize = 512;

/// Interval between batches, unless one is full earlier.
const BATCH_INTERVAL: Duration = Duration::from_secs(1);

/// Timeout for sending a batch.
const SEND_TIMEOUT: Duration = Duration::from_secs(3);

/// Timeout for sending the pending spans at shutdown.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum size of a collector's response, which is usually a few bytes.
const MAX_RESPONSE_BYTES: usize = 64 * 1024;

/// Sends spans. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Exporter {
    provider: SdkTracerProvider,
    tracer: SdkTracer,
}

impl Exporter {
    /// `None` if no endpoint is configured.
    pub(super) fn new(config: &TelemetryConfig) -> Result<Option<Self>, ExporterError> {
        let Some(endpoint) = &config.otlp_endpoint else { return Ok(None) };
        let exporter = SpanExporter::builder()
            .with_http()
            .with_http_client(BatchSender::new())
            .with_protocol(Protocol::HttpBinary)
            .with_endpoint(format!("{}/v1/traces", endpoint.trim_end_matches('/')))
            .with_timeout(SEND_TIMEOUT)
            .build()?;
        let batches = BatchConfigBuilder::default()
            .with_max_queue_size(MAX_QUEUE)
            .with_max_export_batch_size(MAX_BATCH)
            .with_scheduled_delay(BATCH_INTERVAL)
            .build();
        let resource = Resource::builder()
            .with_service_name("gene-registry")
            .with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")))
            .build();
        let sampler = Sampler::TraceIdRatioBased(config.sample_ratio);
        let provider = SdkTracerProvider::builder()
            .with_span_processor(
                BatchSpanProcessor::builder(exporter).with_batch_config(batches).build(),
            )
            // A caller that sends a trace has already made the sampling decision.
            .with_sampler(Sampler::ParentBased(Box::new(sampler)))
            .with_resource(resource)
            .build();
        let tracer = provider.tracer("gene-registry");
        Ok(Some(Self { provider, tracer }))
    }

    pub(super) fn begin(&self, parent: Option<&TraceContext>) -> RequestSpan {
        let parent = parent.map_or_else(Context::new, |parent| {
            let flags = if parent.sampled { TraceFlags::SAMPLED } else { TraceFlags::NOT_SAMPLED };
            Context::new().with_remote_span_context(SpanContext::new(
                opentelemetry::trace::TraceId::from_bytes(parent.trace.0),
                SpanId::from_bytes(parent.parent),
                flags,
                true,
                TraceState::NONE,
            ))
        });
        let span = self.tracer.span_builder("request").with_kind(SpanKind::Server);
        RequestSpan(span.start_with_context(&self.tracer, &parent))
    }

    pub(super) async fn end(self) {
        // `shutdown_with_timeout` blocks its thread.
        let ended = tokio::task::spawn_blocking(move || {
            self.provider.shutdown_with_timeout(SHUTDOWN_TIMEOUT)
        })
        .await;
        if !matches!(ended, Ok(Ok(()))) {
            tracing::warn!("the pending spans could not be sent before the end");
        }
    }
}

/// A request's span.
#[derive(Debug)]
pub(super) struct RequestSpan(Span);

impl RequestSpan {
    pub(super) fn trace_id(&self) -> TraceId {
        TraceId(self.0.span_context().trace_id().to_bytes())
    }

    /// The attributes are fixed words and the request's id: no path, query or key.
    pub(super) fn end(mut self, labels: RequestLabels<'_>, request_id: &str) {
        let span = &mut self.0;
        if !span.is_recording() {
            return;
        }
        let (method, route) =
            (method_label(labels.method), labels.route.unwrap_or(UNMATCHED_ROUTE));
        span.update_name(format!("{method} {route}"));
        span.set_attribute(KeyValue::new("http.request.method", method));
        span.set_attribute(KeyValue::new("http.route", route.to_owned()));
        span.set_attribute(KeyValue::new("http.response.status_code", i64::from(labels.status)));
        span.set_attribute(KeyValue::new("gene_registry.request_id", request_id.to_owned()));
        if let Some(source) = labels.source {
            span.set_attribute(KeyValue::new("gene_registry.cache", source));
        }
        if labels.status >= 500 {
            span.set_status(Status::error(""));
        }
        span.end();
    }
}

/// Sends batches. The library calls it from its own thread, outside of the runtime.
#[derive(Debug)]
struct BatchSender {
    runtime: Handle,
    client: Client<HttpConnector, Full<Bytes>>,
    fails: Arc<AtomicBool>,
}

impl BatchSender {
    fn new() -> Self {
        register(TASK);
        let client = Client::builder(TokioExecutor::new()).build_http();
        Self { runtime: Handle::current(), client, fails: Arc::default() }
    }
}

#[async_trait]
impl HttpClient for BatchSender {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let client = self.client.clone();
        let exchange = async move {
            let (head, body) = client.request(request.map(Full::new)).await?.into_parts();
            let body = Limited::new(body, MAX_RESPONSE_BYTES).collect().await?.to_bytes();
            Ok::<_, HttpError>(Response::from_parts(head, body))
        };
        // The timer must be created on the runtime.
        let sent = self.runtime.spawn(contain(TASK, async move {
            tokio::time::timeout(SEND_TIMEOUT, exchange).await
        }));
        let response = match sent.await {
            Ok(Some(Ok(response))) => response,
            Ok(Some(Err(elapsed))) => Err(elapsed.into()),
            Ok(None) => Err(TaskPanicked.into()),
            Err(cancelled) => Err(cancelled.into()),
        };
        let failed = !response.as_ref().is_ok_and(|response| response.status().is_success());
        if self.fails.swap(failed, Ordering::Relaxed) != failed {
            match (&response, failed) {
                (_, false) => tracing::info!("the collector accepts spans again"),
                (Err(error), true) => {
                    tracing::warn!(error, "spans cannot be sent to the collector")
                }
                (Ok(response), true) => {
                    tracing::warn!(
                        status = response.status().as_u16(),
                        "the collector rejects spans"
                    );
                }
            }
        }
        response
    }
}
