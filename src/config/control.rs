//! `[control]`: the listener for key management, and who may use it.

use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use data_encoding::HEXLOWER_PERMISSIVE;
use hyper::Uri;
use secrecy::SecretString;
use serde::{Deserialize, Deserializer};

use super::rules::{PUBLIC_URL, Rules, is_public_url};
use crate::registry::{LABEL, Timestamp, is_label};

/// The control listener. Off without an address.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ControlConfig {
    /// Where it listens.
    pub bind: Option<SocketAddr>,
    /// `postgres://…` with the role that writes keys and their use; `CONTROL_DATABASE_URL` sets
    /// it too.
    pub database_url: Option<SecretString>,
    /// Where clients reach the listener, without `/control/v1`.
    pub public_url: Option<String>,
    /// Users who may see and change everybody's keys.
    pub operators: Vec<String>,
    /// The OpenID Connect issuer whose access tokens are taken.
    pub oidc: OidcConfig,
    /// Login tokens that are taken.
    #[serde(default)]
    pub tokens: Vec<TokenConfig>,
}

/// An OpenID Connect issuer. Off without `issuer`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OidcConfig {
    /// Its identifier: a URL.
    pub issuer: Option<String>,
    /// Whom access tokens must be made out to.
    pub audience: Option<String>,
    /// The client as which the command line logs in.
    pub client_id: Option<String>,
    /// What the command line asks for.
    pub scopes: String,
    /// The claim that says who the user is.
    pub user_claim: String,
    /// The resource that the command line asks a token for (RFC 8707).
    pub resource: Option<String>,
    /// A PEM file with the certificate authorities to trust instead of the system's.
    pub tls_ca_file: Option<PathBuf>,
}

/// A login token, known by its hash.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenConfig {
    /// Whose it is.
    pub user: String,
    /// SHA-256 of the whole token.
    #[serde(deserialize_with = "hash")]
    pub sha256: [u8; 32],
    /// When it ends; without it, never.
    #[serde(default, deserialize_with = "time")]
    pub expires: Option<Timestamp>,
}

fn hash<'de, D: Deserializer<'de>>(deserializer: D) -> Result<[u8; 32], D::Error> {
    let text = String::deserialize(deserializer)?;
    let bytes = HEXLOWER_PERMISSIVE.decode(text.as_bytes()).ok();
    // The given text is not repeated: it may be the token itself.
    let invalid = || serde::de::Error::custom("must be 64 hexadecimal digits (of a SHA-256)");
    bytes.and_then(|bytes| bytes.try_into().ok()).ok_or_else(invalid)
}

fn time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Timestamp>, D::Error> {
    let text = Option::<String>::deserialize(deserializer)?;
    let parsed = text.map(|text| text.parse()).transpose();
    parsed.map_err(|_| {
        serde::de::Error::custom("must be a time in quotes, such as \"2030-01-31T12:00:00Z\"")
    })
}

impl ControlConfig {
    /// What can't be as it is.
    pub(super) fn rules(&self, rules: &mut Rules) {
        self.oidc.rules(rules);
        for (at, token) in self.tokens.iter().enumerate() {
            let key = format!("control.tokens.{at}.user");
            rules.require(is_label(&token.user), &[&key], &format!("must be {LABEL}"));
        }
        const TOKENS: &str = "control.tokens";
        let hashes: HashSet<_> = self.tokens.iter().map(|token| token.sha256).collect();
        let holds = hashes.len() == self.tokens.len();
        rules.require(holds, &[TOKENS], "two have the same sha256");
        rules.require(
            self.operators.iter().all(|user| is_label(user)),
            &["control.operators"],
            &format!("each must be {LABEL}"),
        );
        rules.require(
            self.bind.is_none() || !self.tokens.is_empty() || self.oidc.issuer.is_some(),
            &["control.bind", TOKENS, "control.oidc.issuer"],
            "nobody could log in: set control.oidc.issuer, or control.tokens (gene-registry token \
             new makes one)",
        );
        let holds = self.public_url.as_deref().is_none_or(is_public_url);
        rules.require(holds, &["control.public_url"], PUBLIC_URL);
    }
}

impl OidcConfig {
    fn rules(&self, rules: &mut Rules) {
        let [issuer_key, audience_key, client_key] =
            ["control.oidc.issuer", "control.oidc.audience", "control.oidc.client_id"];
        let Some(issuer) = &self.issuer else { return };
        rules.require(
            is_trustworthy(issuer),
            &[issuer_key],
            "must be an https:// URL without a query or fragment (http:// is possible on this \
             machine alone)",
        );
        for (key, value) in [(audience_key, &self.audience), (client_key, &self.client_id)] {
            let holds = value.as_ref().is_some_and(|value| !value.is_empty());
            rules.require(holds, &[key, issuer_key], "must be set where there is an issuer");
        }
        rules.require(
            self.audience.is_none() || self.audience != self.client_id,
            &[audience_key, client_key],
            "must not be client_id: ID tokens are made out to that, and are no access tokens",
        );
        let holds = !self.user_claim.is_empty();
        rules.require(holds, &["control.oidc.user_claim"], "must not be empty");
    }
}

/// Whether nobody between here and there could change what is said: https, or this machine.
pub(crate) fn is_trustworthy(url: &str) -> bool {
    let Ok(parsed) = url.parse::<Uri>() else { return false };
    let is_plain = parsed.query().is_none() && !url.contains(['#', '@']);
    match (parsed.scheme_str(), parsed.host()) {
        (Some("https"), Some(_)) => is_plain,
        (Some("http"), Some(host)) => is_plain && is_loopback(host),
        _ => false,
    }
}

fn is_loopback(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || bare.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_https_or_this_machine_is_trustworthy() {
        for good in [
            "https://id.example",
            "https://id.example:8443/realms/a",
            "http://localhost:3000",
            "http://127.0.0.1:3000/",
            "http://[::1]:3000",
        ] {
            assert!(is_trustworthy(good), "{good}");
        }
        for bad in [
            "http://id.example",
            "http://localhost.example",
            "http://127.0.0.1.example",
            "http://10.0.0.1",
            "https://id.example?x=1",
            "https://id.example#x",
            "https://user@id.example",
            "ftp://localhost",
            "id.example",
            "/x",
            "",
        ] {
            assert!(!is_trustworthy(bad), "{bad}");
        }
    }
}
