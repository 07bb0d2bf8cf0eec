//! Logging in by an OpenID provider: the device authorization grant.

use serde_json::json;

use super::AccountSetup;
use crate::commands::TIMEOUT;
use crate::commands::cli_user::CliUser;
use crate::support::issuer::Issuer;
use crate::support::process::Process;
use crate::support::wait::{eventually, until};

/// A login that waits for approval.
struct PendingLogin {
    process: Process,
    code: String,
}

impl PendingLogin {
    async fn start(setup: &AccountSetup, cli_user: &CliUser) -> Self {
        let process = cli_user.command(&["login", "--server", setup.server()]).start();
        let code = until(TIMEOUT, "the code is shown", || async {
            let said = process.stderr();
            assert!(process.is_running(), "{said}");
            let line = said.lines().find(|line| line.contains("this code: "))?;
            Some(line.rsplit_once(' ').unwrap().1.to_owned())
        })
        .await;
        Self { process, code }
    }

    /// The exit status and the output.
    async fn wait_for_end(self) -> (i32, String) {
        let status = self.process.wait_exit(TIMEOUT).await;
        assert_eq!(self.process.stdout(), "");
        (status.code().unwrap(), self.process.stderr())
    }
}

async fn setup() -> (AccountSetup, Issuer) {
    let issuer = Issuer::start().await;
    let setup = AccountSetup::with(|config| issuer.configure(config)).await;
    (setup, issuer)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_approved_login_can_create_keys() {
    let (setup, issuer) = setup().await;
    let waiting = PendingLogin::start(&setup, &setup.ana).await;
    let shown = waiting.process.stderr();
    let page = format!("{}/device?user_code={}", issuer.url, waiting.code);
    assert!(shown.contains(&page), "{shown}");
    issuer.approve(&waiting.code, "ana").await;
    let (code, said) = waiting.wait_for_end().await;
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("as ana"), "{said}");

    let who = setup.ana.run(&["whoami", "--json"]).await.ok().stdout;
    assert!(who.contains(r#""method":"oidc""#) && who.contains(r#""renewed":true"#), "{who}");
    let key = setup.create("ci").await;
    assert_eq!(setup.status_of(&key).await, 200);
    for secret in ["token", "refresh_token"] {
        let kept = &setup.ana.credentials()["servers"][setup.server()];
        let value = kept.get(secret).unwrap_or(&kept["oidc"][secret]).as_str().unwrap();
        assert!(!said.contains(value) && !who.contains(value), "{secret}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_names_the_client_of_another_login_gets_no_token() {
    let (setup, issuer) = setup().await;
    let waiting = PendingLogin::start(&setup, &setup.ana).await;
    issuer.approve(&waiting.code, "ana").await;
    assert_eq!(waiting.wait_for_end().await.0, 0);
    let other = AccountSetup::with(|config| issuer.configure(config)).await;
    let before = setup.ana.credentials();

    let refused = setup.ana.run(&["login", "--server", other.server()]).await;

    let refused = refused.failed(1, &[]);
    assert!(refused.stderr.contains(setup.server()), "{}", refused.stderr);
    assert_eq!(setup.ana.credentials(), before);
    let command = ["login", "--shared-client", "--server", other.server()];
    let trusted = setup.ana.command(&command).start();
    eventually(TIMEOUT, "the login begins", || async {
        trusted.stderr().contains(&format!("{} receives the token", other.server()))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_denied_login_ends_and_saves_nothing() {
    let (setup, issuer) = setup().await;
    let waiting = PendingLogin::start(&setup, &setup.ana).await;
    issuer.deny(&waiting.code).await;
    let (code, said) = waiting.wait_for_end().await;
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("denied"), "{said}");
    assert!(!setup.ana.credentials_path().exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unapproved_login_ends_when_its_code_expires() {
    let (setup, issuer) = setup().await;
    issuer.set(json!({ "device_code_s": 3 })).await;
    let (code, said) = PendingLogin::start(&setup, &setup.ana).await.wait_for_end().await;
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("expired") && said.contains("gene-registry login"), "{said}");
    assert!(!setup.ana.credentials_path().exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_client_polls_at_the_requested_interval_and_slows_down_on_request() {
    let (setup, issuer) = setup().await;
    issuer.set(json!({ "interval_s": 2, "slow_downs": 1 })).await;
    let waiting = PendingLogin::start(&setup, &setup.ana).await;
    let polls = until(TIMEOUT, "the client polls twice", || async {
        Some(issuer.polls().await).filter(|polls| polls.len() >= 2)
    })
    .await;
    let gap = polls[1] - polls[0];
    assert!(gap >= 6_900, "2 s and 5 s more after slow_down, not {gap} ms");
    issuer.approve(&waiting.code, "ana").await;
    assert_eq!(waiting.wait_for_end().await.0, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn polling_continues_while_the_issuer_is_briefly_unavailable() {
    let (setup, issuer) = setup().await;
    let waiting = PendingLogin::start(&setup, &setup.ana).await;
    issuer.set(json!({ "refuse": true })).await;
    issuer.approve(&waiting.code, "ana").await;
    eventually(TIMEOUT, "a poll gets a 503", || async {
        assert!(waiting.process.is_running(), "{}", waiting.process.report());
        issuer.refusals().await > 0
    })
    .await;
    issuer.set(json!({ "refuse": false })).await;
    let (code, said) = waiting.wait_for_end().await;
    assert_eq!(code, 0, "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_login_waits_as_long_as_a_busy_issuer_asks() {
    let (setup, issuer) = setup().await;
    issuer.set(json!({ "busy": 2, "retry_after": "1" })).await;
    let waiting = PendingLogin::start(&setup, &setup.ana).await;
    let said = waiting.process.stderr();
    assert!(said.contains("waiting for 1 s"), "{said}");
    issuer.set(json!({ "busy": 1, "retry_after": "9" })).await;
    issuer.approve(&waiting.code, "ana").await;
    let (code, said) = waiting.wait_for_end().await;
    assert_eq!(code, 0, "{said}");
    let polls = issuer.polls().await;
    let gap = polls.windows(2).map(|pair| pair[1] - pair[0]).max();
    assert!(gap >= Some(8_900), "the 9 s of Retry-After, not {gap:?} ms");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_issuer_that_is_busy_for_long_ends_the_login_with_the_time() {
    let (setup, issuer) = setup().await;
    issuer.set(json!({ "busy": 1, "retry_after": "3600" })).await;
    let login = ["login", "--server", setup.server()];
    let ended = setup.ana.run(&login).await.failed(1, &[]);
    assert!(ended.stderr.contains("try again in 3600 s"), "{ended:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unusable_issuer_is_named() {
    let (setup, issuer) = setup().await;
    let login = ["login", "--server", setup.server()];
    issuer.set(json!({ "refuse": true })).await;
    let ended = setup.ana.run(&login).await.failed(1, &[]);
    assert!(ended.stderr.contains("503"), "{ended:?}");
    issuer.stop();
    let ended = setup.ana.run(&login).await.failed(1, &[]);
    assert!(ended.stderr.contains("login server"), "{ended:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_accepted_while_an_issuer_is_configured() {
    let (setup, _issuer) = setup().await;
    setup.log_in(&setup.ana, &setup.token).await;
    let who = setup.ana.run(&["whoami", "--json"]).await.ok().stdout;
    assert!(who.contains(r#""method":"token""#), "{who}");
}
