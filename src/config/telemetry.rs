//! `[telemetry]`: traces by OpenTelemetry.

use hyper::Uri;
use serde::Deserialize;

use super::checks::Checks;

/// The exporter of spans.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TelemetryConfig {
    /// The collector's URL, without `/v1/traces`; without it no spans are sent.
    pub otlp_endpoint: Option<String>,
    /// The sampled ratio of the requests that come without a trace, 0 to 1.
    pub sample_ratio: f64,
}

impl TelemetryConfig {
    /// Checks the section. `can_send`: whether this build can send spans.
    pub(super) fn check(&self, can_send: bool, checks: &mut Checks) {
        const ENDPOINT: &str = "telemetry.otlp_endpoint";
        if let Some(endpoint) = &self.otlp_endpoint {
            let problem = "this program was built without the feature `otlp`";
            checks.require(can_send, &[ENDPOINT], problem);
            let has_host = |uri: &Uri| uri.host().is_some_and(|host| !host.is_empty());
            let is_http = |uri: Uri| uri.scheme_str() == Some("http") && has_host(&uri);
            let is_plain = !endpoint.contains(['@', '?', '#']);
            let form = "must be http://host:port, without user, query or fragment; TLS is not \
                        supported, so use a collector on the local network";
            checks.require(is_plain && endpoint.parse().is_ok_and(is_http), &[ENDPOINT], form);
        }
        let valid = (0.0..=1.0).contains(&self.sample_ratio);
        checks.require(valid, &["telemetry.sample_ratio"], "must be from 0 to 1");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::ConfigError;

    fn problems(endpoint: Option<&str>, sample_ratio: f64, can_send: bool) -> Vec<String> {
        let config = TelemetryConfig { otlp_endpoint: endpoint.map(str::to_owned), sample_ratio };
        let mut checks = Checks::default();
        config.check(can_send, &mut checks);
        let key = |error: ConfigError| error.text.split(':').next().unwrap_or_default().to_owned();
        checks.into_errors().into_iter().map(key).collect()
    }

    #[test]
    fn an_endpoint_needs_the_otlp_feature_and_a_plain_http_address() {
        assert_eq!(problems(None, 0.0, false), [""; 0]);
        assert_eq!(problems(Some("http://collector:4318"), 1.0, true), [""; 0]);
        assert_eq!(
            problems(Some("http://collector:4318"), 1.0, false),
            ["telemetry.otlp_endpoint"]
        );
        for wrong in [
            "https://c",
            "c:4318",
            "http://",
            "http://u:p@c",
            "http://c?x",
            "http://:1",
            "http://a b",
        ] {
            assert_eq!(problems(Some(wrong), 1.0, true), ["telemetry.otlp_endpoint"], "{wrong}");
        }
        for wrong in [-0.1, 1.1, f64::NAN] {
            assert_eq!(problems(None, wrong, true), ["telemetry.sample_ratio"]);
        }
    }
}
