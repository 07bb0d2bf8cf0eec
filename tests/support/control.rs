//! Requests to a replica's control listener.

use gene_registry::config::{Config, TokenConfig};
use gene_registry::control::LoginToken;
use reqwest::Method;
use serde_json::{Value, json};

use super::database::Database;
use super::replica::{Replica, Response};

/// The role that writes keys.
pub(crate) const KEYS_ROLE: &str = "gene_registry_keys";

/// The role that records the use of keys.
pub(crate) const USAGE_ROLE: &str = "gene_registry_usage";

/// Enables the control listener, on a free port, with keys written to this database, and with limits
/// of users that no test reaches unless it sets its own.
pub(crate) fn with_control(config: &mut Config, database: &Database<'_>) {
    config.control.max_rate_limit = 2_147_483_647;
    config.control.scopes = ["read", "write", "x"].map(str::to_owned).into();
    config.control.max_keys = 10_000;
    config.control.bind = Some("127.0.0.1:0".parse().unwrap());
    config.control.database_url = Some(database.url_as(KEYS_ROLE).into());
}

/// Configures a new login token of this user; returns it.
pub(crate) fn new_token(config: &mut Config, user: &str) -> String {
    let token = LoginToken::generate().unwrap();
    let listed = TokenConfig { user: user.to_owned(), sha256: token.hash(), expires: None };
    config.control.tokens.push(listed);
    token.expose().to_owned()
}

/// A client of a control listener.
#[derive(Clone)]
pub(crate) struct ControlClient {
    client: reqwest::Client,
    base: String,
    token: Option<String>,
}

impl ControlClient {
    /// A client with a token, or without one.
    pub(crate) fn new(replica: &Replica, token: Option<&str>) -> Self {
        let root = replica.control.as_ref().expect("the control listener is enabled");
        let base = format!("{root}/control/v1");
        Self { client: reqwest::Client::new(), base, token: token.map(str::to_owned) }
    }

    pub(crate) async fn get(&self, path: &str) -> Response {
        self.send(Method::GET, path, None).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Response {
        self.send(Method::POST, path, Some(body.to_string())).await
    }

    pub(crate) async fn send(&self, method: Method, path: &str, body: Option<String>) -> Response {
        let mut request = self.client.request(method, format!("{}{path}", self.base));
        if let Some(token) = &self.token {
            request = request.header("Authorization", format!("Bearer {token}"));
        }
        if let Some(body) = body {
            request = request.header("Content-Type", "application/json").body(body);
        }
        Response::of(request.send().await.unwrap()).await
    }

    /// Posts a body with these content types.
    pub(crate) async fn send_as(&self, kinds: &[&str], path: &str, body: &str) -> Response {
        let request = self.client.post(format!("{}{path}", self.base)).body(body.to_owned());
        let token = self.token.as_deref().unwrap_or_default();
        let request = request.header("Authorization", format!("Bearer {token}"));
        let request =
            kinds.iter().fold(request, |request, kind| request.header("Content-Type", *kind));
        Response::of(request.send().await.unwrap()).await
    }

    /// Creates a key with this name and a limit that no test reaches; returns the key itself.
    pub(crate) async fn create(&self, name: &str) -> String {
        let body = json!({ "name": name, "rate_limit_per_minute": 1_000_000 });
        let response = self.post("/api-keys", &body).await;
        assert_eq!(response.status, 201, "{response:?}");
        response.json()["key"].as_str().unwrap().to_owned()
    }

    /// All of the user's keys, page by page.
    pub(crate) async fn list(&self) -> Vec<Value> {
        let mut found = Vec::new();
        loop {
            let response = self.get(&format!("/api-keys?limit=1000&offset={}", found.len())).await;
            assert_eq!(response.status, 200, "{response:?}");
            let page = response.json();
            found.extend(page["data"].as_array().unwrap().iter().cloned());
            if page["has_more"] == false {
                return found;
            }
        }
    }
}

/// The prefix of a key, which identifies it.
pub(crate) fn prefix(key: &str) -> &str {
    &key[..11]
}
