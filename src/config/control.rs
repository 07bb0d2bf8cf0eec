//! `[control]`: the listener for key management, and the identities that may use it.

use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use data_encoding::HEXLOWER_PERMISSIVE;
use hyper::Uri;
use secrecy::SecretString;
use serde::{Deserialize, Deserializer};

use super::checks::Checks;
use super::secret_url::has_user;
use crate::registry::{LABEL, SCOPE, Timestamp, is_label, is_scope};

/// The control listener. It is off without an address.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ControlConfig {
    /// The address to listen on.
    pub bind: Option<SocketAddr>,
    /// `postgres://…` with the role that writes keys and their use; also set by
    /// `CONTROL_DATABASE_URL`.
    pub database_url: Option<SecretString>,
    /// A file with that URL.
    pub database_url_file: Option<PathBuf>,
    /// The URL at which clients reach the listener, without `/control/v1`.
    pub public_url: Option<String>,
    /// Users who may list and change the keys of all users.
    pub operators: Vec<String>,
    /// The highest rate limit of users' keys, in requests a minute, 1 to 2147483647.
    pub max_rate_limit: u32,
    /// The scopes that users' keys may have.
    pub scopes: Vec<String>,
    /// The number of keys of one user that are neither revoked nor expired, 0 to 1000000.
    pub max_keys: u32,
    /// The OpenID Connect issuer whose access tokens are accepted.
    pub oidc: OidcConfig,
    /// The login tokens that are accepted.
    #[serde(default)]
    pub tokens: Vec<TokenConfig>,
}

/// An OpenID Connect issuer. It is off without `issuer`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OidcConfig {
    /// Its identifier: a URL.
    pub issuer: Option<String>,
    /// The audience that access tokens must have.
    pub audience: Option<String>,
    /// The client id that the command line logs in with.
    pub client_id: Option<String>,
    /// The scopes that the command line requests.
    pub scopes: String,
    /// The claim that contains the user's name.
    pub user_claim: String,
    /// The resource that the command line requests a token for (RFC 8707).
    pub resource: Option<String>,
    /// A PEM file with the certificate authorities to trust instead of the system's.
    pub tls_ca_file: Option<PathBuf>,
}

/// A login token, stored as a hash.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenConfig {
    /// The user it belongs to.
    pub user: String,
    /// SHA-256 of the whole token.
    #[serde(deserialize_with = "hash")]
    pub sha256: [u8; 32],
    /// When it expires; `None` for never.
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
    let invalid =
        || serde::de::Error::custom("must be a time in quotes, such as \"2030-01-31T12:00:00Z\"");
    let text = Option::<String>::deserialize(deserializer).map_err(|_| invalid())?;
    text.map(|text| text.parse()).transpose().map_err(|_| invalid())
}

impl ControlConfig {
    /// Checks the section.
    pub(super) fn check(&self, checks: &mut Checks) {
        self.oidc.check(checks);
        for (index, token) in self.tokens.iter().enumerate() {
            let key = format!("control.tokens.{index}.user");
            checks.require(is_label(&token.user), &[&key], &format!("must be {LABEL}"));
        }
        const TOKENS: &str = "control.tokens";
        let hashes: HashSet<_> = self.tokens.iter().map(|token| token.sha256).collect();
        let valid = hashes.len() == self.tokens.len();
        checks.require(valid, &[TOKENS], "two tokens have the same sha256");
        checks.require(
            self.operators.iter().all(|user| is_label(user)),
            &["control.operators"],
            &format!("each must be {LABEL}"),
        );
        checks.require(
            !self.scopes.is_empty() && self.scopes.iter().all(|scope| is_scope(scope)),
            &["control.scopes"],
            &format!("must have at least one scope, each {SCOPE}"),
        );
        checks.require(
            self.bind.is_none() || !self.tokens.is_empty() || self.oidc.issuer.is_some(),
            &["control.bind", TOKENS, "control.oidc.issuer"],
            "nobody could log in: set control.oidc.issuer, or control.tokens (gene-registry token \
             new creates one)",
        );
        checks.require_public_url("control.public_url", self.public_url.as_deref());
    }
}

impl OidcConfig {
    fn check(&self, checks: &mut Checks) {
        let [issuer_key, audience_key, client_key] =
            ["control.oidc.issuer", "control.oidc.audience", "control.oidc.client_id"];
        let Some(issuer) = &self.issuer else { return };
        checks.require(
            is_confidential_url(issuer),
            &[issuer_key],
            "must be an https:// URL without user, query or fragment (http:// is allowed for this \
             machine only)",
        );
        for (key, value) in [(audience_key, &self.audience), (client_key, &self.client_id)] {
            let valid = value.as_ref().is_some_and(|value| !value.is_empty());
            checks.require(
                valid,
                &[key, issuer_key],
                "must be set too: control.oidc.issuer needs it",
            );
        }
        for (key, value) in
            [(audience_key, &self.audience), ("control.oidc.resource", &self.resource)]
        {
            let valid = value.as_ref().is_none_or(|value| !has_user(value));
            checks.require(valid, &[key], "must not contain a user or password: clients see it");
        }
        checks.require(
            self.audience.is_none() || self.audience != self.client_id,
            &[audience_key, client_key],
            "must differ from client_id: that is the audience of ID tokens, which are not accepted as \
             access tokens",
        );
        let valid = !self.user_claim.is_empty();
        checks.require(valid, &["control.oidc.user_claim"], "must not be empty");
    }
}

/// Whether the connection cannot be tampered with: https, or http to this machine.
pub(crate) fn is_confidential_url(url: &str) -> bool {
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
            assert!(is_confidential_url(good), "{good}");
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
            assert!(!is_confidential_url(bad), "{bad}");
        }
    }
}
