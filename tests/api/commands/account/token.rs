//! Logging in by a token.

use serde_json::json;

use super::AccountSetup;
use crate::commands::cli_user::{CliUser, mode};
use crate::support::control::new_token;

#[tokio::test(flavor = "multi_thread")]
async fn a_token_from_standard_input_logs_in_and_is_saved_privately() {
    let setup = AccountSetup::with(|_| {}).await;
    let login = ["login", "--server", setup.server(), "--token-stdin"];
    let ended = setup.ana.run_with_input(&login, &format!("{}\n", setup.token)).await.ok();
    assert_eq!(ended.stdout, "");
    assert!(ended.stderr.contains("as ana") && !ended.stderr.contains(&setup.token), "{ended:?}");
    assert_eq!(mode(&setup.ana.credentials_path()), 0o600);
    assert_eq!(mode(setup.ana.credentials_path().parent().unwrap()), 0o700);

    let who = setup.ana.run(&["whoami"]).await.ok();
    for part in [setup.server(), "ana", "never"] {
        assert!(who.stdout.contains(part), "{who:?}");
    }
    let who = setup.ana.run(&["whoami", "--json"]).await.ok().stdout;
    let expected = json!({ "server": setup.server(), "user": "ana", "operator": false,
                           "method": "token", "expires_at": null, "renewed": false });
    assert_eq!(serde_json::from_str::<serde_json::Value>(&who).unwrap(), expected);
    assert!(!who.contains(&setup.token));

    setup.ana.run(&["logout"]).await.ok();
    let kept = std::fs::read_to_string(setup.ana.credentials_path()).unwrap();
    assert!(!kept.contains(&setup.token), "{kept}");
    let ended = setup.ana.run(&["whoami", "--server", setup.server()]).await.failed(1, &[]);
    assert!(
        ended.stderr.contains("gene-registry login --server"),
        "the remedy is printed: {ended:?}"
    );
    setup.ana.run(&["logout", "--all"]).await.ok();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_typed_token_is_not_echoed() {
    let setup = AccountSetup::with(|_| {}).await;
    let mut terminal = setup.ana.at_terminal(&["login", "--server", setup.server()]).await;
    terminal.wait_for_text("not shown while typed").await;
    terminal.type_line(&setup.token).await;
    terminal.wait_for_text("as ana").await;
    let (code, output) = terminal.wait_for_end().await;
    assert_eq!(code, 0, "{output}");
    assert!(!output.contains(&setup.token), "{output}");
    setup.ana.run(&["whoami"]).await.ok();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_token_changes_nothing_and_is_not_printed() {
    let setup = AccountSetup::start().await;
    let key = setup.create("ci").await;
    let before = std::fs::read_to_string(setup.ana.credentials_path()).unwrap();
    let mut unknown = setup.token.clone();
    unknown.replace_range(4..5, if unknown.contains("grt_a") { "b" } else { "a" });
    let login = ["login", "--token-stdin"];
    for (input, code) in [
        ("", 2),
        (" \n\n", 2),
        (key.as_str(), 2),
        (unknown.as_str(), 1),
        ("grt_x", 1),
        ("two words", 1),
        ("a\u{1b}[31mb\nc", 1),
        (&"x".repeat(100_000), 1),
    ] {
        let secret = if input.len() > 4 { input } else { "no secret" };
        setup.ana.run_with_input(&login, input).await.failed(code, &[secret]);
    }
    // Without a terminal there is nobody to prompt.
    let ended = setup.ana.run(&["login"]).await.failed(2, &[]);
    assert!(ended.stderr.contains("--token-stdin"), "{ended:?}");
    assert_eq!(std::fs::read_to_string(setup.ana.credentials_path()).unwrap(), before);
    setup.ana.run(&["whoami"]).await.ok();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_removed_token_prints_the_remedy() {
    let setup = AccountSetup::start().await;
    let (text, other) = (setup.ana.credentials().to_string(), AccountSetup::with(|_| {}).await);
    setup.ana.set_credentials(&text.replace(setup.server(), other.server()));
    for args in [&["whoami"][..], &["api-key", "list"], &["api-key", "create", "--name", "x"]] {
        let ended = setup.ana.run(args).await.failed(1, &[&setup.token]);
        let what = format!("gene-registry login --server {}", other.server());
        assert!(ended.stderr.contains(&what), "{ended:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_expired_token_prints_the_remedy() {
    let setup = AccountSetup::start().await;
    let mut all = setup.ana.credentials();
    all["servers"][setup.server()]["expires_at"] = json!("2020-01-01T00:00:00Z");
    setup.ana.set_credentials(&all.to_string());
    let ended = setup.ana.run(&["whoami"]).await.failed(1, &[&setup.token]);
    assert!(
        ended.stderr.contains("has expired. Log in again: gene-registry login --server"),
        "{ended:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_have_separate_logins_and_the_last_one_is_the_default() {
    let (one, mut ben) = (AccountSetup::with(|_| {}).await, String::new());
    let two = AccountSetup::with(|config| ben = new_token(config, "ben")).await;
    let cli_user = CliUser::new();
    one.log_in(&cli_user, &one.token).await;
    two.log_in(&cli_user, &ben).await;
    let user = |server: Option<&str>| {
        let named = server.map(|server| ["--server".to_owned(), server.to_owned()]);
        let cli_user = cli_user.clone();
        async move {
            let named = named.iter().flatten().map(String::as_str);
            let args: Vec<_> = std::iter::once("whoami").chain(named).collect();
            cli_user.run(&args).await.ok().stdout
        }
    };
    assert!(user(None).await.contains("ben"));
    assert!(user(Some(one.server())).await.contains("ana"));
    let with_slash = format!("{}/control/v1/", one.server());
    assert!(user(Some(&with_slash)).await.contains("ana"), "the same server");

    cli_user.run(&["logout"]).await.ok();
    assert!(user(None).await.contains("ana"), "the only one left");
    let ended = cli_user.run(&["whoami", "--server", two.server()]).await.failed(1, &[]);
    assert!(ended.stderr.contains(one.server()), "where one is logged in: {ended:?}");

    two.log_in(&cli_user, &ben).await;
    cli_user.run(&["logout", "--all"]).await.ok();
    cli_user.run(&["whoami"]).await.failed(2, &[]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_no_control_listener_is_reported() {
    let setup = AccountSetup::with(|_| {}).await;
    let public = setup.replica.base.trim_end_matches("/v1");
    let ended = setup.ana.run(&["login", "--server", public]).await.failed(1, &[]);
    assert!(ended.stderr.contains("control listener"), "{ended:?}");
    let ended = setup.ana.run(&["login", "--server", &setup.replica.ops]).await.failed(1, &[]);
    assert!(ended.stderr.contains("control listener"), "{ended:?}");
}
