//! `[server.cors]`: pages of other origins that may read answers.

use serde::Deserialize;

/// Stands for any origin.
const ANY: &str = "*";

/// Pages of which origins may read answers. Credentials that a browser adds by itself are never
/// asked for: keys are sent in a header.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CorsConfig {
    /// Exact origins, or `*` alone for any; none: no page of another origin.
    pub origins: Vec<String>,
}

impl CorsConfig {
    /// Whether pages of any origin may.
    pub fn is_any(&self) -> bool {
        self.origins.iter().any(|origin| origin == ANY)
    }

    /// Whether each is an origin as browsers write it, or `*` is the only one.
    pub(super) fn is_usable(&self) -> bool {
        (self.is_any() && self.origins.len() == 1) || self.origins.iter().all(|o| is_origin(o))
    }
}

/// `scheme://host` or `scheme://host:port`, lowercase, without anything after it.
fn is_origin(text: &str) -> bool {
    let Some((scheme, host)) = text.split_once("://") else { return false };
    let allowed =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-._:[]".contains(&byte);
    let is_scheme =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"+-.".contains(&byte);
    !scheme.is_empty()
        && scheme.bytes().all(is_scheme)
        && !host.is_empty()
        && host.bytes().all(allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_are_as_browsers_write_them() {
        let usable = |origins: &[&str]| {
            CorsConfig { origins: origins.iter().map(|&o| o.to_owned()).collect() }.is_usable()
        };
        for good in [
            &[][..],
            &["*"],
            &["https://a.example", "http://localhost:3000", "http://[::1]:8080"],
            &["chrome-extension://abcdef"],
        ] {
            assert!(usable(good), "{good:?}");
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
            assert!(!usable(bad), "{bad:?}");
        }
    }
}
