//! Revoking keys through a control listener.

use super::AccountSetup;

/// Two keys of Ana's with a common beginning.
async fn alike(setup: &AccountSetup) {
    for prefix in ["gr_same0001", "gr_same0002"] {
        let key = setup.create(prefix).await;
        let (old, name) = (&key[..11], prefix);
        let sql = format!(
            "update registry.api_key set prefix = '{prefix}', name = '{name}' where prefix = '{old}'"
        );
        setup.execute(&sql).await;
    }
}

async fn all_active(setup: &AccountSetup) -> bool {
    setup.keys().await.iter().all(|key| key["status"] == "active")
}

#[tokio::test(flavor = "multi_thread")]
async fn ambiguous_prefixes_revoke_and_rotate_nothing() {
    let setup = AccountSetup::start().await;
    let key = setup.create("ci").await;
    alike(&setup).await;
    for action in ["revoke", "rotate"] {
        for ambiguous in ["same", "gr_same000"] {
            let args = ["api-key", action, "--prefix", ambiguous];
            let ended = setup.ana.run(&args).await.failed(2, &[]);
            for prefix in ["gr_same0001", "gr_same0002"] {
                assert!(ended.stderr.contains(prefix), "{ended:?}");
            }
        }
        for unclear in ["", "%", "s%me", "____", "gr_", "sam", "none", "gr_zzzz9999", &key] {
            let args = ["api-key", action, "--prefix", unclear];
            setup.ana.run(&args).await.failed(2, &[&key[11..]]);
        }
    }
    assert!(all_active(&setup).await);
    setup.ana.run(&["api-key", "revoke", "--prefix", "gr_same0001"]).await.ok();
    let statuses: Vec<_> = setup.keys().await.iter().map(|key| key["status"].clone()).collect();
    assert_eq!(statuses.iter().filter(|status| *status == "revoked").count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_whole_key_as_argument_is_not_sent() {
    let setup = AccountSetup::start().await;
    let key = setup.create("ci").await;
    let login = setup.ana.credentials().to_string();
    // A port on which nothing listens: the arguments are refused before any request.
    setup.ana.set_credentials(&login.replace(setup.server(), "http://127.0.0.1:9"));
    for action in ["revoke", "rotate"] {
        let args = ["api-key", action, "--prefix", &key];
        let ended = setup.ana.run(&args).await.failed(2, &[&key[11..]]);
        assert!(ended.stderr.contains("never give the whole key"), "{ended:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn revoking_twice_is_harmless() {
    let setup = AccountSetup::start().await;
    let key = setup.create("ci").await;
    let revoke = ["api-key", "revoke", "--prefix", &key[3..7], "--json"];
    let first = setup.ana.run(&revoke).await.ok().stdout;
    let second = setup.ana.run(&revoke).await.ok().stdout;
    assert_eq!(first, second);
    assert!(first.contains(r#""status":"revoked""#), "{first}");
}

#[tokio::test(flavor = "multi_thread")]
async fn revoking_on_a_terminal_asks_for_confirmation() {
    let setup = AccountSetup::start().await;
    let key = setup.create("ci").await;
    let revoke = ["api-key", "revoke", "--prefix", &key[3..7]];
    for no in ["", "n", "nonsense"] {
        let mut terminal = setup.ana.at_terminal(&revoke).await;
        terminal.wait_for_text("[y/N]").await;
        assert!(terminal.output().contains(&format!("{} (ci)", &key[..11])), "which it would be");
        terminal.type_line(no).await;
        let (code, output) = terminal.wait_for_end().await;
        assert_eq!(code, 2, "{output}");
        assert!(output.contains("Nothing was revoked"), "{output}");
        assert!(all_active(&setup).await);
    }
    let mut terminal = setup.ana.at_terminal(&revoke).await;
    terminal.wait_for_text("[y/N]").await;
    terminal.type_line("y").await;
    let (code, output) = terminal.wait_for_end().await;
    assert_eq!(code, 0, "{output}");
    assert!(!all_active(&setup).await);
    // The key is revoked already, so there is nothing to confirm.
    let (code, output) = setup.ana.at_terminal(&revoke).await.wait_for_end().await;
    assert_eq!((code, output.contains("[y/N]")), (0, false), "{output}");
}

#[tokio::test(flavor = "multi_thread")]
async fn yes_and_ambiguous_prefixes_ask_for_no_confirmation() {
    let setup = AccountSetup::start().await;
    let key = setup.create("ci").await;
    alike(&setup).await;
    for unclear in ["same", "zzzz9999"] {
        let args = ["api-key", "revoke", "--prefix", unclear];
        let (code, output) = setup.ana.at_terminal(&args).await.wait_for_end().await;
        assert_eq!((code, output.contains("[y/N]")), (2, false), "{output}");
    }
    assert!(all_active(&setup).await);
    let args = ["api-key", "revoke", "--yes", "--prefix", &key[..11]];
    let (code, output) = setup.ana.at_terminal(&args).await.wait_for_end().await;
    assert_eq!((code, output.contains("[y/N]")), (0, false), "{output}");
}

#[tokio::test(flavor = "multi_thread")]
async fn another_users_key_is_reported_as_missing() {
    let setup = AccountSetup::start().await;
    let key = setup.create("ci").await;
    let olga = setup.operator().await;
    for action in ["revoke", "rotate"] {
        let said = |prefix: &str| {
            let args = ["api-key", action, "--prefix", prefix].map(str::to_owned);
            let olga = olga.clone();
            async move {
                let args: Vec<_> = args.iter().map(String::as_str).collect();
                olga.run(&args).await.failed(2, &[]).stderr
            }
        };
        assert_eq!(said(&key[..11]).await, said("gr_zzzz9999").await);
    }
    assert!(all_active(&setup).await);
}
