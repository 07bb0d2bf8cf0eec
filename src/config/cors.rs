//! `[server.cors]`: the origins whose pages may read responses.

use serde::Deserialize;

/// Matches every origin.
const ANY: &str = "*";

/// The origins whose pages may read responses. Browsers are never asked for cookies or other
/// credentials of their own: API keys are sent in a header.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CorsConfig {
    /// Exact origins, or `*` alone for any. Empty: only pages of the service's own origin.
    pub origins: Vec<String>,
}

impl CorsConfig {
    /// Whether pages of any origin may read responses.
    pub fn is_any(&self) -> bool {
        self.origins.iter().any(|origin| origin == ANY)
    }

    /// Whether each has the form in which browsers send origins, or `*` is the only one.
    pub(super) fn is_valid(&self) -> bool {
        (self.is_any() && self.origins.len() == 1) || self.origins.iter().all(|o| is_origin(o))
    }
}

/// `scheme://host` or `scheme://host:port`, lowercase, without anything after it.
fn is_origin(text: &str) -> bool {
    let Some((scheme, host)) = text.split_once("://") else { return false };
    let consists_of = |text: &str, marks: &[u8]| {
        let allowed = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9') || marks.contains(&byte);
        !text.is_empty() && text.bytes().all(allowed)
    };
    consists_of(scheme, b"+-.") && consists_of(host, b"-._:[]")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_origins_in_the_form_that_browsers_send_are_valid() {
        let valid = |origins: &[&str]| {
            CorsConfig { origins: origins.iter().map(|&o| o.to_owned()).collect() }.is_valid()
        };
        for good in [
            &[][..],
            &["*"],
            &["https://a.example", "http://localhost:3000", "http://[::1]:8080"],
            &["chrome-extension://abcdef"],
        ] {
            assert!(valid(good), "{good:?}");
        }
        for bad in [
            &["a.example"][..],
            &["https://"],
            &["https://a.example/"],
            &["https://A.example"],
            &["https://*.example"],
            &["https://a.example", "*"],
            &["null"],
            &[""],
        ] {
            assert!(!valid(bad), "{bad:?}");
        }
    }
}
