//! `token new`

use gene_registry::control::LoginToken;

use super::{gene_registry, run};
use crate::support::control::ControlClient;
use crate::support::replica::{Replica, config};
use crate::support::scratch_folder;

#[tokio::test(flavor = "multi_thread")]
async fn token_new_prints_only_the_token_and_explains_its_configuration() {
    let made = run(gene_registry(["token", "new", "--user", "alice", "--expires", "90d"])).await;
    let made = made.ok();
    let token: LoginToken = made.stdout.trim_end().parse().unwrap();
    assert_eq!(made.stdout, format!("{}\n", token.expose()));
    assert!(!made.stderr.contains(token.expose()), "{made:?}");
    let lines = made.stderr.split_once("\n\n").unwrap().1;
    let file = scratch_folder("token").join("registry.toml");
    std::fs::write(&file, format!("[control]\nbind = \"127.0.0.1:0\"\n{lines}")).unwrap();
    let loaded = gene_registry::config::LoadedConfig::read(Some(&file)).unwrap().config;
    let mut config = config("postgres://127.0.0.1:1/none", None);
    config.control = loaded.control;
    let replica = Replica::start(&config).await;
    let who = ControlClient::new(&replica, Some(token.expose())).get("/whoami").await.json();
    assert_eq!((&who["user"], who["expires_at"].is_string()), (&"alice".into(), true));
}

#[tokio::test(flavor = "multi_thread")]
async fn token_new_refuses_invalid_users_and_expiries() {
    for args in [
        &["token", "new"][..],
        &["token", "new", "--user", ""],
        &["token", "new", "--user", "a\nb"],
        &["token", "new", "--user", "  "],
        &["token", "new", "--user", "a\u{202e}b"],
        &["token", "new", "--user", "a", "--expires", "yesterday"],
    ] {
        run(gene_registry(args)).await.failed(2, &["grt_"]);
    }
}
