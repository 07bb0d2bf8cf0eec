//! Secrets in errors, in the environment and in files.

use super::{config, gene_registry, run};
use crate::support::scratch_folder;

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_secret_is_not_printed() {
    let secret = "s3cret-of-postgres";
    // A token in place of its hash.
    let token = "[[control.tokens]]\nuser = \"a\"\nsha256 = \"s3cret-of-postgres\"";
    let ended = run(config("check", token)).await.failed(1, &[secret]);
    assert!(ended.stderr.contains("sha256"), "{ended:?}");
    // No list, a list of something else, and no URL.
    for text in [
        format!("[upstream]\nread_urls = \"{secret}\"\n"),
        format!("[upstream]\nread_urls = [[\"{secret}\"]]\n"),
        format!("[upstream]\nurl = \"postgres://h/d\"\nread_urls = [\"{secret}\"]\n"),
    ] {
        let ended = run(config("check", &text)).await.failed(1, &[secret]);
        assert!(ended.stderr.contains("upstream.read_urls"), "{ended:?}");
    }
    let text = format!("[upstream]\nurl = [\"{secret}\"]\n");
    for action in ["check", "print"] {
        let ended = run(config(action, &text)).await.failed(1, &[secret]);
        assert!(ended.stderr.contains("upstream.url"), "{ended:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn strings_in_the_environment_may_look_like_numbers() {
    let printed = gene_registry(["config", "print"])
        .env("GENE_REGISTRY__REDIS__PREFIX", "007")
        .env("GENE_REGISTRY__CONTROL__OIDC__ISSUER", "https://id.example")
        .env("GENE_REGISTRY__CONTROL__OIDC__AUDIENCE", "true")
        .env("GENE_REGISTRY__CONTROL__OIDC__CLIENT_ID", "1e5");
    let printed = run(printed).await.ok().stdout;
    for (key, value) in [
        ("redis.prefix", "007"),
        ("control.oidc.audience", "true"),
        ("control.oidc.client_id", "1e5"),
    ] {
        assert!(printed.contains(&format!("{key} = \"{value}\"")), "{key}: {printed}");
    }
}

/// Every secret: its key, a valid value of it, and what the key needs beside it.
const SECRETS: [(&str, &str, &str); 8] = [
    ("upstream.url", "postgres://u:secret@h/d", ""),
    ("upstream.read_urls", "postgres://u:secret@h/d", ""),
    ("redis.url", "redis://:secret@h", ""),
    ("redis.urls", "redis://:secret@h", "redis.topology = \"cluster\""),
    ("redis.password", "secret", "redis.url = \"redis://h\""),
    (
        "redis.sentinel.password",
        "secret",
        "redis.topology = \"sentinel\"\nredis.urls = [\"redis://h\"]\nredis.sentinel.service = \"s\"",
    ),
    ("control.database_url", "postgres://u:secret@h/d", ""),
    ("keys.usage_database_url", "postgres://u:secret@h/d", ""),
];

#[tokio::test(flavor = "multi_thread")]
async fn every_secret_can_be_in_a_file() {
    let folder = scratch_folder("secrets");
    let secret_file = folder.join("secret");
    for (key, value, needed) in SECRETS {
        let url = if key == "upstream.url" { "" } else { "upstream.url = \"postgres://h/d\"" };
        let given =
            if key.ends_with("urls") { format!("[{value:?}]") } else { format!("{value:?}") };
        let by_file = format!("{url}\n{needed}\n{key}_file = {secret_file:?}");

        std::fs::write(&secret_file, format!("{value}\r\n")).unwrap();
        run(config("check", &by_file)).await.ok();
        let both = format!("{by_file}\n{key} = {given}");
        let ended = run(config("check", &both)).await.failed(1, &["secret@", "\"secret\""]);
        let named = format!("{key}_file: must not be set beside {key}");
        assert!(ended.stderr.contains(&named), "{ended:?}");
        let empty =
            format!("{by_file}\n{key} = {}", if key.ends_with("urls") { "[]" } else { "\"\"" });
        run(config("check", &empty)).await.ok();

        std::fs::write(&secret_file, "\n").unwrap();
        let ended = run(config("check", &by_file)).await.failed(1, &[]);
        assert!(ended.stderr.contains(&format!("{key}_file: ")), "{ended:?}");
        assert!(ended.stderr.contains("is empty"), "{ended:?}");
        std::fs::remove_file(&secret_file).unwrap();
        let ended = run(config("check", &by_file)).await.failed(1, &[]);
        assert!(ended.stderr.contains(&format!("{key}_file: cannot read ")), "{ended:?}");
        assert_eq!(ended.stderr.lines().count(), 2, "nothing that follows from it: {ended:?}");
    }
}
