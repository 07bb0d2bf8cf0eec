//! What other users of the machine can see of a command with secrets: its arguments and, for the
//! same user or root, its environment.

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;

use super::AccountSetup;
use crate::commands::TIMEOUT;
use crate::commands::cli_user::CliUser;
use crate::support::control::new_token;
use crate::support::issuer::{AUDIENCE, CLIENT, Issuer};
use crate::support::process::{Process, tree};
use crate::support::proxy::{FaultProxy, Mode};
use crate::support::raw::address;
use crate::support::replica::config;
use crate::support::wait::{eventually, until};

/// The arguments and environments of the process and all its descendants.
fn visible(process: &Process) -> String {
    let read = |pid: u32, name: &str| {
        let bytes = std::fs::read(format!("/proc/{pid}/{name}")).unwrap_or_default();
        String::from_utf8_lossy(&bytes).replace('\0', " ")
    };
    let all = tree(process.pid()).into_iter();
    all.map(|pid| format!("{}\n{}\n", read(pid, "cmdline"), read(pid, "environ"))).collect()
}

/// A control listener that describes its login and then never responds. Any further request
/// contains a token; the channel yields these requests.
struct HangingServer {
    url: String,
    tokens: mpsc::UnboundedReceiver<String>,
    _task: AbortOnDropHandle<()>,
}

impl HangingServer {
    async fn start(how: serde_json::Value) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (sent, tokens) = mpsc::unbounded_channel();
        let how = how.to_string();
        let task = tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let (how, sent) = (how.clone(), sent.clone());
                tokio::spawn(async move {
                    let mut bytes = vec![0; 16 * 1024];
                    // Each request comes in one piece; otherwise the test times out.
                    while let Ok(length @ 1..) = stream.read(&mut bytes).await {
                        let request = String::from_utf8_lossy(&bytes[..length]).into_owned();
                        let token = request.lines().find_map(|line| {
                            let (name, value) = line.split_once(": ")?;
                            name.eq_ignore_ascii_case("authorization").then(|| value.to_owned())
                        });
                        if let Some(token) = token {
                            sent.send(token.trim_start_matches("Bearer ").to_owned()).unwrap();
                            continue;
                        }
                        let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json";
                        let length = how.len();
                        let response = format!("{head}\r\nContent-Length: {length}\r\n\r\n{how}");
                        stream.write_all(response.as_bytes()).await.unwrap();
                    }
                });
            }
        });
        Self { url, tokens, _task: AbortOnDropHandle::new(task) }
    }

    async fn token(&mut self) -> String {
        let token = tokio::time::timeout(TIMEOUT, self.tokens.recv()).await;
        token.expect("a token is sent").unwrap()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_have_no_token_in_arguments_or_environment() {
    let setup = AccountSetup::start().await;
    let proxy = FaultProxy::start(address(setup.server())).await;
    let through = format!("http://{}", proxy.addr());
    let cli_user = CliUser::new();
    let login = ["login", "--server", through.as_str(), "--token-stdin"];
    cli_user.run_with_input(&login, &setup.token).await.ok();
    // The command hangs in the middle of a request, with all its secrets in memory.
    proxy.set(Mode::Stall).await;
    let connections = proxy.accepted();
    let process = cli_user.command(&["api-key", "create", "--name", "ci"]).start();
    eventually(TIMEOUT, "the command sends its request", || async {
        proxy.accepted() > connections
    })
    .await;
    let seen = visible(&process);
    assert!(seen.contains("api-key create") && !seen.contains(&setup.token), "{seen}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_login_has_no_secret_in_arguments_or_environment() {
    let token = new_token(&mut config("postgres://h/d", None), "ana");
    let mut stuck = HangingServer::start(json!({ "methods": ["token"], "oidc": null })).await;
    let url = stuck.url.clone();
    let login = ["login", "--server", url.as_str()];
    let cli_user = CliUser::new();

    let process = cli_user.begin_with_input(&[&login[..], &["--token-stdin"]].concat(), &token);
    assert_eq!(stuck.token().await, token, "the command is in the middle of a request");
    let seen = visible(&process);
    assert!(seen.contains("--token-stdin") && !seen.contains(&token), "{seen}");

    let mut terminal = cli_user.at_terminal(&login).await;
    terminal.wait_for_text("not shown while typed").await;
    terminal.type_line(&token).await;
    assert_eq!(stuck.token().await, token, "the command is in the middle of a request");
    let seen = visible(terminal.process());
    assert!(seen.contains(&url) && !seen.contains(&token), "{seen}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_device_login_has_no_secret_in_arguments_or_environment() {
    let issuer = Issuer::start().await;
    let oidc = json!({ "issuer": issuer.url, "client_id": CLIENT, "audience": AUDIENCE,
        "scopes": "openid offline_access", "resource": AUDIENCE });
    let mut stuck = HangingServer::start(json!({ "methods": ["oidc"], "oidc": oidc })).await;
    let cli_user = CliUser::new();
    let process = cli_user.command(&["login", "--server", &stuck.url]).start();
    let code = until(TIMEOUT, "the code is shown", || async {
        assert!(process.is_running(), "{}", process.report());
        let said = process.stderr();
        let line = said.lines().find(|line| line.contains("this code: "))?;
        Some(line.rsplit_once(' ').unwrap().1.to_owned())
    })
    .await;
    let waiting = visible(&process);
    issuer.approve(&code, "ana").await;
    let token = stuck.token().await;
    let seen = visible(&process);
    assert!(seen.contains("login --server"), "{seen}");
    // Any JWT of the issuer begins like this.
    assert!(token.starts_with("eyJ"), "an access token");
    for text in [waiting, seen] {
        assert!(!text.contains("eyJ") && !text.contains(&code), "{text}");
    }
}
