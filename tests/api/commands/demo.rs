//! `demo`

use std::net::{Ipv4Addr, TcpListener};

use reqwest::StatusCode;
use serde_json::{Value, json};

use super::{TIMEOUT, gene_registry};
use crate::support::control::new_token;
use crate::support::free_port;
use crate::support::process::{Launch, Process, Signal};
use crate::support::replica::config;
use crate::support::wait::{eventually, until};

struct Demo {
    process: Process,
    key: String,
    base: String,
    text: String,
}

impl Demo {
    async fn start(args: &[&str]) -> Self {
        Self::begin(gene_registry([&["demo"], args].concat())).await
    }

    async fn begin(command: Launch) -> Self {
        let process = command.start();
        let text = until(TIMEOUT, "the demo prints its usage", || async {
            assert!(process.is_running(), "{}", process.report());
            Some(process.stdout()).filter(|text| text.contains("Ctrl-C"))
        })
        .await;
        let after = |label: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(label));
            line.unwrap_or_else(|| panic!("no {label:?}: {text}")).trim().to_owned()
        };
        let (key, base) = (after("API key:"), after("Base URL:"));
        Self { process, key, base, text }
    }

    /// The key with a label.
    fn labelled(&self, label: &str) -> &str {
        let line = self.text.lines().find(|line| line.trim_end().ends_with(label));
        line.and_then(|line| line.split_whitespace().next()).unwrap_or_else(|| panic!("{label}"))
    }

    async fn ask(&self, key: &str) -> StatusCode {
        get(&format!("{}/genes?limit=1", self.base), key).await.status()
    }
}

async fn get(url: &str, key: &str) -> reqwest::Response {
    reqwest::Client::new().get(url).header("X-API-Key", key).send().await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_demo_prints_a_working_key_first_and_curl_lines_that_work() {
    let demo = Demo::start(&["--bind", "127.0.0.1:0"]).await;
    assert!(demo.text.starts_with("API key:  gr_"), "{}", demo.text);
    assert!(demo.base.ends_with("/v1"), "{}", demo.base);
    let response = get(&format!("{}/genes", demo.base), &demo.key).await;
    assert_eq!(response.status(), 200);
    assert_eq!(response.headers()["x-ratelimit-limit"], "5000");
    assert_eq!(response.headers()["access-control-allow-origin"], "*", "for any page");

    let curls: Vec<_> = demo.text.lines().filter(|line| line.starts_with("curl ")).collect();
    assert_eq!(curls.len(), 3, "one for each operation");
    for curl in curls {
        // curl -H 'X-API-Key: …' '…'
        let quoted: Vec<_> = curl.split('\'').collect();
        let key = quoted[1].strip_prefix("X-API-Key: ").unwrap();
        let response = get(quoted[3], key).await;
        assert_eq!(response.status(), 200, "{curl}");
        assert!(
            response.text().await.unwrap().len() > 100,
            "{curl}: an answer that shows something"
        );
    }
    let docs = demo.text.lines().find_map(|line| line.strip_prefix("Docs:")).unwrap().trim();
    let page = reqwest::get(docs).await.unwrap();
    assert_eq!(page.status(), 200);
    assert!(page.text().await.unwrap().contains("swagger-ui"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_demos_other_keys_behave_as_they_are_labelled() {
    let demo = Demo::start(&["--bind", "127.0.0.1:0"]).await;
    for label in ["expired an hour ago", "revoked an hour ago", "without the scope read"] {
        assert_eq!(demo.ask(demo.labelled(label)).await, 401, "{label}");
    }
    let by_default = demo.labelled("30 requests a minute, the default limit");
    let response = get(&format!("{}/genes", demo.base), by_default).await;
    assert_eq!(response.headers()["x-ratelimit-limit"], "30");
    let two = demo.labelled("2 requests a minute");
    let mut statuses = Vec::new();
    for _ in 0..3 {
        statuses.push(demo.ask(two).await.as_u16());
    }
    assert_eq!(statuses, [200, 200, 429]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_demo_creates_serves_lists_and_revokes_a_new_key() {
    let demo = Demo::start(&["--bind", "127.0.0.1:0"]).await;
    let after = |label: &str| {
        let line = demo.text.lines().find_map(|line| line.trim().strip_prefix(label));
        line.unwrap_or_else(|| panic!("no {label:?}: {}", demo.text)).trim().to_owned()
    };
    let (token, control) = (after("Login token:"), after("Control API:"));
    let control = control.split(' ').next().unwrap();
    let client = reqwest::Client::new();
    let send = async |request: reqwest::RequestBuilder| {
        let response = request.header("Authorization", format!("Bearer {token}")).send().await;
        response.unwrap().json::<Value>().await.unwrap()
    };
    let who = send(client.get(format!("{control}/whoami"))).await;
    assert_eq!(who["user"], "demo");
    let body = json!({ "name": "mine" });
    let made = send(client.post(format!("{control}/api-keys")).json(&body)).await;
    let key = made["key"].as_str().unwrap();
    assert_eq!(demo.ask(key).await, 200);
    eventually(TIMEOUT, "its use is recorded", || async {
        let listed = send(client.get(format!("{control}/api-keys?limit=1"))).await;
        listed["data"][0]["name"] == "mine" && listed["data"][0]["request_count"] == 1
    })
    .await;
    let body = json!({ "prefix": made["prefix"] });
    let revoked = send(client.post(format!("{control}/api-keys/revoke")).json(&body)).await;
    assert_eq!(revoked["status"], "revoked");
    eventually(TIMEOUT, "the key is refused", || async { demo.ask(key).await == 401 }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_demo_uses_a_free_port_if_its_default_is_taken() {
    // The port is in use, by this test or by another process.
    let _taken = [8080, 8081].map(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)));
    let demo = Demo::start(&[]).await;
    assert!(!demo.base.contains(":8080"), "{}", demo.base);
    assert!(!demo.text.contains("127.0.0.1:8081"), "{}", demo.text);
    eventually(TIMEOUT, "the demo reports the other port", || async {
        demo.process.stderr().contains("127.0.0.1:8080 is in use")
    })
    .await;
    assert_eq!(demo.ask(&demo.key).await, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_demo_keeps_an_address_given_as_argument() {
    let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let ended = super::run(gene_registry(["demo", "--bind", &address])).await.failed(1, &[]);
    let said =
        format!("gene-registry: --bind: cannot listen on {address}: address already in use\n");
    assert_eq!(ended.stderr, said);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_demo_ends_cleanly_when_interrupted_or_terminated() {
    for signal in [Signal::Int, Signal::Term] {
        let demo = Demo::start(&["--bind", "127.0.0.1:0"]).await;
        // A client that keeps its connection open does not delay the end.
        let client = reqwest::Client::new();
        let url = format!("{}/genes", demo.base);
        let response = client.get(url).header("X-API-Key", &demo.key).send().await.unwrap();
        assert_eq!(response.status(), 200);
        demo.process.signal(signal);
        let status = demo.process.wait_exit(TIMEOUT).await;
        assert_eq!(status.code(), Some(0), "{signal:?}: {}", demo.process.report());
        assert_eq!(demo.process.stderr().matches("panic").count(), 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_demo_ignores_databases_that_it_does_not_need() {
    let secret = "s3cret-of-the-database";
    let url = format!("postgres://user:{secret}@127.0.0.1:1/none");
    let command = gene_registry(["demo", "--bind", "127.0.0.1:0"]);
    let command = command.env("DATABASE_URL", &url).env("REDIS_URL", "redis://127.0.0.1:1");
    let command = command.env("GENE_REGISTRY_OPS__BIND", "127.0.0.1:0");
    let command = command.env("GENE_REGISTRY__LOG__LEVEL", "info");
    let process = command.start();
    until(TIMEOUT, "the demo has started", || async {
        assert!(process.is_running(), "{}", process.report());
        process.stdout().contains("API key:").then_some(())
    })
    .await;
    eventually(TIMEOUT, "the demo names the ignored settings", || async {
        process.stderr().contains("ignores REDIS_URL, DATABASE_URL, GENE_REGISTRY_OPS__BIND")
    })
    .await;
    let report = process.report();
    assert!(!report.contains(secret), "{report}");
    assert!(report.contains("without Redis") && !report.contains("is not set"), "{report}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_demo_takes_settings_from_the_environment() {
    let mut elsewhere = config("postgres://h/d", None);
    let hers = new_token(&mut elsewhere, "alice");
    let hash = elsewhere.control.tokens[0].sha256.map(|byte| format!("{byte:02x}")).concat();
    let (public, ops, control) = (free_port(), free_port(), free_port());
    let at = |port: u16| format!("127.0.0.1:{port}");
    let command = gene_registry(["demo"])
        .env("GENE_REGISTRY__SERVER__BIND", at(public))
        .env("GENE_REGISTRY__OPS__BIND", at(ops))
        .env("GENE_REGISTRY__CONTROL__BIND", at(control))
        .env("GENE_REGISTRY__CONTROL__TOKENS", format!("[{{user=\"alice\",sha256=\"{hash}\"}}]"))
        .env("GENE_REGISTRY__SERVER__CORS__ORIGINS", "[\"https://app.example\"]")
        .env("GENE_REGISTRY__REGISTRY__INSTALL_COMMAND", "get {id}");
    let demo = Demo::begin(command).await;
    assert_eq!(demo.base, format!("http://127.0.0.1:{public}/v1"));
    for told in [format!("http://{}/readyz", at(ops)), format!("http://{}/docs", at(control))] {
        assert!(demo.text.contains(&told), "{told}: {}", demo.text);
    }
    let response = get(&format!("{}/genes", demo.base), &demo.key).await;
    assert!(!response.headers().contains_key("access-control-allow-origin"), "{response:?}");
    let (_, own) = demo.text.split_once("Login token:").unwrap();
    for (token, user) in [(own.split_whitespace().next().unwrap(), "demo"), (&hers, "alice")] {
        let who = reqwest::Client::new()
            .get(format!("http://{}/control/v1/whoami", at(control)))
            .header("Authorization", format!("Bearer {token}"));
        let who = who.send().await.unwrap().json::<Value>().await.unwrap();
        assert_eq!(who["user"], user);
    }
    assert_eq!(demo.process.stderr(), "", "no setting was ignored");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_demo_keeps_addresses_from_the_environment() {
    for (variable, key) in [
        ("GENE_REGISTRY__SERVER__BIND", "server.bind"),
        ("GENE_REGISTRY__OPS__BIND", "ops.bind"),
        ("GENE_REGISTRY__CONTROL__BIND", "control.bind"),
    ] {
        let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = taken.local_addr().unwrap().to_string();
        let ended =
            super::run(gene_registry(["demo"]).env(variable, &address)).await.failed(1, &[]);
        let said =
            format!("gene-registry: {key}: cannot listen on {address}: address already in use\n");
        assert!(ended.stderr.ends_with(&said), "{ended:?}");
    }
}
