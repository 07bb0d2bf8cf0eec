//! Hostile servers, and servers that are no control listeners.

use serde_json::json;

use super::AccountSetup;
use crate::commands::cli_user::CliUser;
use crate::commands::responder::Responder;
use crate::support::proxy::FaultProxy;
use crate::support::raw::address;

/// A user with a login to this server.
fn with_login_to(url: &str) -> CliUser {
    let cli_user = CliUser::new();
    let login = json!({ "user": "ana", "token": "grt_secretsecret", "expires_at": null,
                        "oidc": null });
    let kept = json!({ "version": 1, "default": url, "servers": { url: login } });
    cli_user.set_credentials(&kept.to_string());
    cli_user
}

const COMMANDS: [&[&str]; 6] = [
    &["whoami"],
    &["api-key", "list"],
    &["api-key", "create", "--name", "x"],
    &["api-key", "revoke", "--prefix", "gr_aaaa"],
    &["api-key", "rotate", "--prefix", "gr_aaaa"],
    &["login"],
];

#[tokio::test(flavor = "multi_thread")]
async fn redirects_are_not_followed_with_the_token() {
    let setup = AccountSetup::start().await;
    let elsewhere = FaultProxy::start(address(setup.server())).await;
    for status in ["301 Moved Permanently", "302 Found", "307 Temporary Redirect"] {
        let head = format!("{status}\r\nLocation: http://{}/control/v1/whoami", elsewhere.addr());
        let responder = Responder::start(&head, "").await;
        let cli_user = with_login_to(&responder.url);
        for command in COMMANDS {
            cli_user.run(command).await.failed(1, &["grt_secretsecret"]);
        }
    }
    assert_eq!(elsewhere.accepted(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn texts_from_a_server_are_sanitized_for_the_terminal() {
    const HIDDEN: &str = "\u{202e}\u{2066}\u{61c}\u{200b}\u{34f}\u{115f}\u{3164}\u{fe0f}\u{feff}\u{e0041}\
        \u{e0100}\u{ad}\u{200d}";
    let evil =
        format!("\u{1b}]0;owned\u{7}\u{1b}[2J\u{9b}31m\r\n\u{202e}gnp.exe{HIDDEN}\u{85}\u{2028}");
    let refusal = json!({ "error": evil, "code": evil }).to_string();
    let key = json!({ "prefix": evil, "owner": evil, "name": evil, "scopes": [evil],
        "rate_limit_per_minute": 1, "created_at": "2026-01-01T00:00:00Z", "expires_at": null,
        "revoked_at": null, "last_used_at": null, "request_count": 0, "status": "active" });
    let page = json!({ "data": [&key], "total": 1, "has_more": true }).to_string();
    let mut created = key.clone();
    created["key"] = json!(evil);
    let mut rotated = created.clone();
    rotated["replaced"] = key.clone();
    let who = json!({ "user": evil, "operator": false, "method": evil, "expires_at": null });
    for (head, body) in [
        ("400 Bad Request", refusal.as_str()),
        ("409 Conflict", refusal.as_str()),
        ("500 Internal Server Error", refusal.as_str()),
        ("200 OK", page.as_str()),
        ("200 OK", &who.to_string()),
        ("200 OK", &key.to_string()),
        ("201 Created", &created.to_string()),
        ("201 Created", &rotated.to_string()),
    ] {
        let responder = Responder::start(head, body).await;
        let cli_user = with_login_to(&responder.url);
        for command in COMMANDS {
            for json in [&[][..], &["--json"]] {
                let json = if command[0] == "login" { &[] } else { json };
                let ended = cli_user.run(&[command, json].concat()).await;
                let harmful = |character: char| {
                    (character.is_control() && character != '\n')
                        || HIDDEN.contains(character)
                        || character == '\u{2028}'
                };
                let said = format!("{}{}", ended.stdout, ended.stderr);
                assert!(!said.contains(harmful), "{command:?}: {ended:?}");
                assert!(!said.contains("panicked"), "{ended:?}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_responses_are_reported_and_bounded() {
    let long = format!("{{\"data\": \"{}\"}}", "x".repeat(4 * 1024 * 1024));
    for (head, body) in [
        ("200 OK", ""),
        ("200 OK", "<html>hello</html>"),
        ("200 OK", "[]"),
        ("200 OK", long.as_str()),
        ("404 Not Found", "no"),
        ("502 Bad Gateway", "<html>nginx</html>"),
    ] {
        let responder = Responder::start(head, body).await;
        let cli_user = with_login_to(&responder.url);
        for command in COMMANDS {
            let ended = cli_user.run(command).await.failed(1, &["grt_secretsecret", "panicked"]);
            assert!(ended.stderr.len() < 1_000, "{ended:?}");
            assert!(ended.stderr.contains(&responder.url), "the server is named: {ended:?}");
        }
    }
}
