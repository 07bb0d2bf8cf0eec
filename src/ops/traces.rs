//! The trace that each request belongs to: its caller's, whose identifier stands in the log, and,
//! in builds with the feature `otlp`, one span a request, sent where `[telemetry]` says.

use poem::http::HeaderMap;

use super::request_metrics::RequestLabels;
use super::trace_context::{TraceContext, TraceId};
use crate::config::TelemetryConfig;

#[cfg(feature = "otlp")]
pub use super::otlp::SetupError as TracesError;
#[cfg(feature = "otlp")]
use super::otlp::{Exporter, RequestSpan};

/// Why spans can't be sent: never, for none are in this build.
#[cfg(not(feature = "otlp"))]
pub type TracesError = std::convert::Infallible;

/// Where spans go. Cheap to clone; the default sends none.
#[derive(Debug, Clone, Default)]
pub struct Traces {
    #[cfg(feature = "otlp")]
    exporter: Option<Exporter>,
}

/// A request's place in its trace, while it is under way.
#[derive(Debug)]
pub struct RequestTrace {
    context: Option<TraceContext>,
    #[cfg(feature = "otlp")]
    span: Option<RequestSpan>,
}

impl Traces {
    /// Begins to send spans where the configuration says so. Must be called on a runtime.
    ///
    /// # Errors
    /// When the endpoint can't be used.
    #[cfg_attr(
        not(feature = "otlp"),
        expect(unused_variables, reason = "spans are not in this build")
    )]
    pub fn new(config: &TelemetryConfig) -> Result<Self, TracesError> {
        Ok(Self {
            #[cfg(feature = "otlp")]
            exporter: Exporter::new(config)?,
        })
    }

    /// A request has come with these headers.
    pub fn begin(&self, headers: &HeaderMap) -> RequestTrace {
        let context = TraceContext::of(headers);
        RequestTrace {
            context,
            #[cfg(feature = "otlp")]
            span: self.exporter.as_ref().map(|exporter| exporter.begin(context.as_ref())),
        }
    }

    /// Sends what has not been sent yet; takes five seconds at most.
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
    /// The trace, if the request belongs to one.
    pub fn id(&self) -> Option<TraceId> {
        #[cfg(feature = "otlp")]
        if let Some(span) = &self.span {
            return Some(span.trace_id());
        }
        self.context.map(|context| context.trace)
    }

    /// The request has been answered.
    #[cfg_attr(
        not(feature = "otlp"),
        expect(unused_variables, reason = "spans are not in this build")
    )]
    pub fn end(self, labels: RequestLabels<'_>, request_id: &str) {
        #[cfg(feature = "otlp")]
        if let Some(span) = self.span {
            span.end(labels, request_id);
        }
    }
}
