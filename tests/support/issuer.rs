//! A real OpenID provider (npm's `oidc-provider`, see `tests/oidc`), with the device flow, and the
//! actions of its users.

use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use futures_util::FutureExt;
use gene_registry::config::Config;
use gene_registry::net::HttpClient;
use hyper::{Request, StatusCode};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use super::authority::{Authority, VALID};
use super::free_port;
use super::process::{Launch, Process};
use super::wait::eventually;

/// The client id of the command line.
pub(crate) const CLIENT: &str = "gene-registry-cli";

/// The audience of tokens, and the resource to request for it.
pub(crate) const AUDIENCE: &str = "https://keys.example/";

/// Another resource of the same issuer.
pub(crate) const OTHER_AUDIENCE: &str = "https://other.example/";

const START_TIMEOUT: Duration = Duration::from_secs(60);
const DEVICE_GRANT: &str = "urn:ietf:params:oauth:grant-type:device_code";

/// An OpenID provider. Dropping it ends it.
pub(crate) struct Issuer {
    process: Process,
    client: HttpClient,
    /// The issuer identifier.
    pub(crate) url: String,
}

/// The tokens of a login.
#[derive(Debug, Clone)]
pub(crate) struct Tokens {
    pub(crate) access: String,
    pub(crate) id: String,
    pub(crate) refresh: String,
}

impl Issuer {
    /// A provider on a free port.
    pub(crate) async fn start() -> Self {
        Self::launch(None).await
    }

    /// A provider behind TLS, with a certificate of this authority for `localhost`.
    pub(crate) async fn start_tls(authority: &Authority) -> Self {
        Self::launch(Some(authority)).await
    }

    async fn launch(authority: Option<&Authority>) -> Self {
        let port = free_port();
        let mut launch = Launch::new("oidc-provider", "node")
            .arg(folder().await.join("provider.mjs"))
            .env("PORT", port.to_string());
        if let Some(authority) = authority {
            let (certificate, key) = authority.certify("localhost", VALID);
            launch = launch.env("TLS_CERT", certificate).env("TLS_KEY", key);
        }
        let process = launch.start();
        let ready = eventually(START_TIMEOUT, "the OpenID provider listens", || async {
            assert!(process.is_running(), "the process did not start: {}", process.report());
            process.stdout().contains("ready")
        });
        if AssertUnwindSafe(ready).catch_unwind().await.is_err() {
            panic!("the provider does not listen: {}", process.report());
        }
        let scheme = if authority.is_some() { "https" } else { "http" };
        let url = format!("{scheme}://localhost:{port}");
        let trusted = authority.map(|authority| authority.file.as_path());
        Self { process, client: HttpClient::new(trusted, START_TIMEOUT).unwrap(), url }
    }

    /// Configures a replica to accept its access tokens.
    pub(crate) fn configure(&self, config: &mut Config) {
        let oidc = &mut config.control.oidc;
        oidc.issuer = Some(self.url.clone());
        oidc.audience = Some(AUDIENCE.to_owned());
        oidc.resource = Some(AUDIENCE.to_owned());
        oidc.client_id = Some(CLIENT.to_owned());
    }

    /// The user approves the device that shows this code.
    pub(crate) async fn approve(&self, user_code: &str, user: &str) {
        self.act("approve", json!({ "user_code": user_code, "user": user })).await;
    }

    /// The user denies the device that shows this code.
    pub(crate) async fn deny(&self, user_code: &str) {
        self.act("deny", json!({ "user_code": user_code })).await;
    }

    /// Signs with a new key (`RS256`, `PS256`, `ES256`, `EdDSA`) from now on; the old ones stay
    /// published if `keep` is set.
    pub(crate) async fn rotate(&self, algorithm: &str, keep: bool) {
        self.act("rotate", json!({ "alg": algorithm, "keep": keep })).await;
    }

    /// Sets lifetimes and misbehaviour: `access_token_s`, `device_code_s`, `interval_s`,
    /// `slow_downs`, `refuse`, `busy`, `retry_after`.
    pub(crate) async fn set(&self, settings: Value) {
        self.act("settings", settings).await;
    }

    /// A token with any claims, signed with the current key.
    pub(crate) async fn sign(&self, claims: Value, header: Value) -> String {
        let signed = self.act("sign", json!({ "claims": claims, "header": header })).await;
        signed.as_str().unwrap().to_owned()
    }

    /// The times, in milliseconds, at which devices polled the token endpoint.
    pub(crate) async fn polls(&self) -> Vec<u64> {
        let polls = self.act("polls", json!({})).await;
        polls.as_array().unwrap().iter().map(|at| at.as_u64().unwrap()).collect()
    }

    /// How often its key set was fetched.
    pub(crate) async fn fetches(&self) -> u64 {
        self.act("fetches", json!({})).await.as_u64().unwrap()
    }

    /// How many requests it has refused because of the setting `refuse`.
    pub(crate) async fn refusals(&self) -> u64 {
        self.act("refusals", json!({})).await.as_u64().unwrap()
    }

    /// Logs a user in through a device; returns the tokens.
    pub(crate) async fn log_in(&self, user: &str) -> Tokens {
        self.log_in_for(user, AUDIENCE).await
    }

    /// Begins a device login; returns the provider's response.
    pub(crate) async fn begin(&self, resource: &str) -> Value {
        let scope = "openid offline_access";
        let asked = [("client_id", CLIENT), ("scope", scope), ("resource", resource)];
        self.post("/device/auth", &asked).await
    }

    /// Polls a device login; returns the provider's response.
    pub(crate) async fn poll(&self, device: &Value, resource: &str) -> Value {
        let asked = [
            ("grant_type", DEVICE_GRANT),
            ("client_id", CLIENT),
            ("device_code", device["device_code"].as_str().unwrap()),
            ("resource", resource),
        ];
        self.post("/token", &asked).await
    }

    /// Like [`log_in`](Self::log_in), for another resource.
    pub(crate) async fn log_in_for(&self, user: &str, resource: &str) -> Tokens {
        let device = self.begin(resource).await;
        self.approve(device["user_code"].as_str().unwrap(), user).await;
        let tokens = self.poll(&device, resource).await;
        let text = |name: &str| tokens[name].as_str().unwrap_or_else(|| panic!("{tokens}")).into();
        Tokens {
            access: text("access_token"),
            id: text("id_token"),
            refresh: text("refresh_token"),
        }
    }

    /// Its published keys.
    pub(crate) async fn keys(&self) -> Value {
        self.client.get_json(&format!("{}/jwks", self.url)).await.unwrap()
    }

    /// Ends it, so that it is unavailable.
    pub(crate) fn stop(self) {
        drop(self.process);
    }

    async fn act(&self, action: &str, body: Value) -> Value {
        let request = Request::post(format!("{}/test/{action}", self.url));
        let request = request.body(body.to_string().into_bytes().into()).unwrap();
        let response = self.client.send(request).await.unwrap();
        assert_eq!(response.status(), StatusCode::OK, "{action}: {:?}", response.body());
        serde_json::from_slice(response.body()).unwrap()
    }

    async fn post(&self, path: &str, fields: &[(&str, &str)]) -> Value {
        let encode = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
        let pairs = fields.iter().map(|(name, value)| format!("{name}={}", encode(value)));
        let form = pairs.collect::<Vec<_>>().join("&");
        let request = Request::post(format!("{}{path}", self.url))
            .header("content-type", "application/x-www-form-urlencoded")
            .body(form.into_bytes().into())
            .unwrap();
        let response = self.client.send(request).await.unwrap();
        serde_json::from_slice(response.body()).unwrap()
    }
}

/// The folder of the installed provider. Installs it once if it is missing.
async fn folder() -> &'static PathBuf {
    static FOLDER: OnceCell<PathBuf> = OnceCell::const_new();
    FOLDER
        .get_or_init(|| async {
            let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
            let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/oidc/install");
            let install = move || {
                let mut command = Command::new(script);
                command.env("CARGO_TARGET_DIR", target).output().unwrap()
            };
            let done = tokio::task::spawn_blocking(install).await.unwrap();
            assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
            target.join("oidc")
        })
        .await
}
