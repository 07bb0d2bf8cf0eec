//! The trace of each request. Its identifier is logged, and builds with the feature `otlp` send one
//! span for each request to the collector in `[telemetry]`.

use poem::http::HeaderMap;

use super::request_metrics::RequestLabels;
use super::trace_context::{TraceContext, TraceId};
use crate::config::TelemetryConfig;

#[cfg(feature = "otlp")]
pub use super::otlp::ExporterError as TracesError;
#[cfg(feature = "otlp")]
use super::otlp::{Exporter, RequestSpan};

/// Why spans cannot be sent. Never occurs in this build, which sends none.
#[cfg(not(feature = "otlp"))]
pub type TracesError = std::convert::Infallible;

/// Sends spans, if it is configured. Cheap to clone; the default sends none.
#[derive(Debug, Clone, Default)]
pub struct Traces {
    #[cfg(feature = "otlp")]
    exporter: Option<Exporter>,
}

/// The trace of a request under way.
#[derive(Debug)]
pub struct RequestTrace {
    context: Option<TraceContext>,
    #[cfg(feature = "otlp")]
    span: Option<RequestSpan>,
}

impl Traces {
    /// Starts the exporter, if an endpoint is configured. Must be called on a runtime.
    ///
    /// # Errors
    /// The endpoint cannot be used.
    #[cfg_attr(
        not(feature = "otlp"),
        expect(unused_variables, reason = "this build sends no spans")
    )]
    pub fn new(config: &TelemetryConfig) -> Result<Self, TracesError> {
        Ok(Self {
            #[cfg(feature = "otlp")]
            exporter: Exporter::new(config)?,
        })
    }

    /// Begins the trace of a request with these headers.
    pub fn begin(&self, headers: &HeaderMap) -> RequestTrace {
        let context = TraceContext::of(headers);
        RequestTrace {
            context,
            #[cfg(feature = "otlp")]
            span: self.exporter.as_ref().map(|exporter| exporter.begin(context.as_ref())),
        }
    }

    /// Sends the pending spans, within five seconds.
    #[cfg_attr(
        not(feature = "otlp"),
        expect(clippy::unused_async, reason = "nothing to wait for in this build")
    )]
    pub async fn end(self) {
        #[cfg(feature = "otlp")]
        if let Some(exporter) = self.exporter {
            exporter.end().await;
        }
    }
}

impl RequestTrace {
    /// The identifier of the trace, if the request belongs to one.
    pub fn id(&self) -> Option<TraceId> {
        #[cfg(feature = "otlp")]
        if let Some(span) = &self.span {
            return Some(span.trace_id());
        }
        self.context.map(|context| context.trace)
    }

    /// Ends the span of a request that has been answered.
    #[cfg_attr(
        not(feature = "otlp"),
        expect(unused_variables, reason = "this build sends no spans")
    )]
    pub fn end(self, labels: RequestLabels<'_>, request_id: &str) {
        #[cfg(feature = "otlp")]
        if let Some(span) = self.span {
            span.end(labels, request_id);
        }
    }
}
