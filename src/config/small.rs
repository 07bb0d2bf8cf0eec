//! `[keys]`, `[registry]`, `[log]` and `[telemetry]`.

use std::time::Duration;

use serde::Deserialize;

/// API keys.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeysConfig {
    /// Also look up keys that were made elsewhere.
    pub accept_foreign: bool,
    /// Between two batches of counts of keys' use, in seconds, 1 to 86400.
    pub usage_every_s: u64,
}

impl KeysConfig {
    /// Between two batches of counts of keys' use.
    pub const fn usage_every(&self) -> Duration {
        Duration::from_secs(self.usage_every_s)
    }
}

/// What the registry itself leaves open.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RegistryConfig {
    /// The install command where the registry has none; `{id}` is the gene's.
    pub install_command: String,
}

/// The log.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LogConfig {
    /// A level, or directives.
    pub level: String,
    /// How events are written.
    pub format: LogFormat,
}

/// How events are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// Text on a terminal, JSON otherwise.
    Auto,
    /// For people.
    Text,
    /// One object a line.
    Json,
}

/// Traces.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TelemetryConfig {
    /// Where spans are sent, without `/v1/traces`; nowhere by default.
    pub otlp_endpoint: Option<String>,
    /// The share of requests without a trace of their own that get one, 0 to 1.
    pub sample_ratio: f64,
}

impl TelemetryConfig {
    /// What can't be as it is, with the key: `can_send` says whether this build can send spans.
    pub(super) fn problems(&self, can_send: bool) -> Vec<(&'static str, &'static str)> {
        const ENDPOINT: &str = "telemetry.otlp_endpoint";
        let mut found = Vec::new();
        if let Some(endpoint) = &self.otlp_endpoint {
            if !can_send {
                found.push((ENDPOINT, "this program was built without the feature `otlp`"));
            }
            let host = endpoint.strip_prefix("http://").unwrap_or_default();
            if host.is_empty() || host.contains(['@', '?', '#']) || host.starts_with(['/', ':']) {
                let form = "must be http://host:port, of a collector that is near: without TLS, \
                            user, query or fragment";
                found.push((ENDPOINT, form));
            }
        }
        if !(0.0..=1.0).contains(&self.sample_ratio) {
            found.push(("telemetry.sample_ratio", "must be from 0 to 1"));
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(endpoint: Option<&str>, sample_ratio: f64, can_send: bool) -> Vec<&'static str> {
        let config = TelemetryConfig { otlp_endpoint: endpoint.map(str::to_owned), sample_ratio };
        config.problems(can_send).into_iter().map(|(key, _)| key).collect()
    }

    #[test]
    fn spans_are_sent_to_a_plain_address_by_a_build_that_can() {
        assert_eq!(problems(None, 0.0, false), [""; 0]);
        assert_eq!(problems(Some("http://collector:4318"), 1.0, true), [""; 0]);
        assert_eq!(
            problems(Some("http://collector:4318"), 1.0, false),
            ["telemetry.otlp_endpoint"]
        );
        for wrong in ["https://c", "c:4318", "http://", "http://u:p@c", "http://c?x", "http://:1"] {
            assert_eq!(problems(Some(wrong), 1.0, true), ["telemetry.otlp_endpoint"], "{wrong}");
        }
        for wrong in [-0.1, 1.1, f64::NAN] {
            assert_eq!(problems(None, wrong, true), ["telemetry.sample_ratio"]);
        }
    }
}
