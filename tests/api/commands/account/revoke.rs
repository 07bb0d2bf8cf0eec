//! Revoking keys through a control listener.

use super::Stand;

/// Two keys of Ana's with a common beginning.
async fn alike(stand: &Stand) {
    for prefix in ["gr_same0001", "gr_same0002"] {
        let key = stand.create(prefix).await;
        let (old, name) = (&key[..11], prefix);
        let sql = format!(
            "update registry.api_key set prefix = '{prefix}', name = '{name}' where prefix = '{old}'"
        );
        stand.execute(&sql).await;
    }
}

async fn all_active(stand: &Stand) -> bool {
    stand.keys().await.iter().all(|key| key["status"] == "active")
}

#[tokio::test(flavor = "multi_thread")]
async fn unclear_prefixes_revoke_and_rotate_nothing() {
    let stand = Stand::start().await;
    let key = stand.create("ci").await;
    alike(&stand).await;
    for action in ["revoke", "rotate"] {
        for ambiguous in ["same", "gr_same000"] {
            let args = ["api-key", action, "--prefix", ambiguous];
            let ended = stand.ana.run(&args).await.failed(2, &[]);
            for prefix in ["gr_same0001", "gr_same0002"] {
                assert!(ended.stderr.contains(prefix), "{ended:?}");
            }
        }
        for unclear in ["", "%", "s%me", "____", "gr_", "sam", "none", "gr_zzzz9999", &key] {
            let args = ["api-key", action, "--prefix", unclear];
            stand.ana.run(&args).await.failed(2, &[&key[11..]]);
        }
    }
    assert!(all_active(&stand).await);
    stand.ana.run(&["api-key", "revoke", "--prefix", "gr_same0001"]).await.ok();
    let statuses: Vec<_> = stand.keys().await.iter().map(|key| key["status"].clone()).collect();
    assert_eq!(statuses.iter().filter(|status| *status == "revoked").count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_whole_key_is_not_even_sent() {
    let stand = Stand::start().await;
    let key = stand.create("ci").await;
    let login = stand.ana.credentials().to_string();
    // A port on which nothing listens: the arguments are refused before any request.
    stand.ana.set_credentials(&login.replace(stand.server(), "http://127.0.0.1:9"));
    for action in ["revoke", "rotate"] {
        let args = ["api-key", action, "--prefix", &key];
        let ended = stand.ana.run(&args).await.failed(2, &[&key[11..]]);
        assert!(ended.stderr.contains("never give the whole key"), "{ended:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn revoking_twice_is_harmless() {
    let stand = Stand::start().await;
    let key = stand.create("ci").await;
    let revoke = ["api-key", "revoke", "--prefix", &key[3..7], "--json"];
    let first = stand.ana.run(&revoke).await.ok().stdout;
    let second = stand.ana.run(&revoke).await.ok().stdout;
    assert_eq!(first, second);
    assert!(first.contains(r#""status":"revoked""#), "{first}");
}

#[tokio::test(flavor = "multi_thread")]
async fn on_a_terminal_it_asks_first() {
    let stand = Stand::start().await;
    let key = stand.create("ci").await;
    let revoke = ["api-key", "revoke", "--prefix", &key[3..7]];
    for no in ["", "n", "nonsense"] {
        let mut terminal = stand.ana.at_terminal(&revoke).await;
        terminal.shows("[y/N]").await;
        assert!(terminal.shown().contains(&format!("{} (ci)", &key[..11])), "which it would be");
        terminal.types(no).await;
        let (code, shown) = terminal.ends().await;
        assert_eq!(code, 2, "{shown}");
        assert!(shown.contains("Nothing was revoked"), "{shown}");
        assert!(all_active(&stand).await);
    }
    let mut terminal = stand.ana.at_terminal(&revoke).await;
    terminal.shows("[y/N]").await;
    terminal.types("y").await;
    let (code, shown) = terminal.ends().await;
    assert_eq!(code, 0, "{shown}");
    assert!(!all_active(&stand).await);
    // The key is revoked already, so there is nothing to confirm.
    let (code, shown) = stand.ana.at_terminal(&revoke).await.ends().await;
    assert_eq!((code, shown.contains("[y/N]")), (0, false), "{shown}");
}

#[tokio::test(flavor = "multi_thread")]
async fn on_a_terminal_yes_is_not_asked_and_unclear_prefixes_neither() {
    let stand = Stand::start().await;
    let key = stand.create("ci").await;
    alike(&stand).await;
    for unclear in ["same", "zzzz9999"] {
        let args = ["api-key", "revoke", "--prefix", unclear];
        let (code, shown) = stand.ana.at_terminal(&args).await.ends().await;
        assert_eq!((code, shown.contains("[y/N]")), (2, false), "{shown}");
    }
    assert!(all_active(&stand).await);
    let args = ["api-key", "revoke", "--yes", "--prefix", &key[..11]];
    let (code, shown) = stand.ana.at_terminal(&args).await.ends().await;
    assert_eq!((code, shown.contains("[y/N]")), (0, false), "{shown}");
}

#[tokio::test(flavor = "multi_thread")]
async fn another_users_key_is_as_if_it_did_not_exist() {
    let stand = Stand::start().await;
    let key = stand.create("ci").await;
    let olga = stand.operator().await;
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
    assert!(all_active(&stand).await);
}
