//! Errors of the configuration have the position and the reason, and never a value or a source line:
//! any of these may be a secret, also one that was given to the wrong key.

use std::path::PathBuf;

use super::{CommandResult, gene_registry, run};
use crate::support::scratch_folder;

const SECRET: &str = "S3cretPw";

const URL: &str = "postgres://127.0.0.1:1/none";

fn file_with(text: &str) -> PathBuf {
    let path = scratch_folder("config").join("registry.toml");
    std::fs::write(&path, text).unwrap();
    path
}

/// Runs `config check`, `config print` and `serve`, which must fail with the same error without the
/// secret; returns that of the first.
async fn refused(text: &str, variables: &[(&str, String)]) -> CommandResult {
    let path = file_with(text);
    let mut results = Vec::new();
    for command in [&["config", "check"][..], &["config", "print"], &["serve"]] {
        let args = [command, &["--config", path.to_str().unwrap()]].concat();
        let mut launch = gene_registry(args).env("DATABASE_URL", URL);
        for (name, value) in variables {
            launch = launch.env(name, value);
        }
        results.push(run(launch).await.failed(1, &[SECRET, "S3cret"]));
    }
    results.swap_remove(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn malformed_files_are_refused_with_the_position_and_the_reason() {
    for (text, said) in [
        (format!("[redis]\nurl = \"redis://h\"\npassword = \"{SECRET}\n"), ", line 3, column "),
        (format!("[redis]\npassword = {SECRET}\n"), ", line 2, column 12: "),
        (
            format!("[redis]\npassword = \"a\"\npassword = \"{SECRET}\""),
            "line 3, column 1: duplicate",
        ),
        (format!("[redis]\npassword = \"a\" {SECRET}"), ", line 2, column "),
        (format!("[redis]\n\"é\" = \"ü\"; password = \"{SECRET}\""), ", line 2, column 10: "),
        (format!("[upstream]\nurl = \"postgres://u:{SECRET}@h/db\n"), ", line 2, column "),
        (
            format!("url = 99999999999999999999999999999999999999999 # {SECRET}"),
            ", line 1, column 7: ",
        ),
    ] {
        let ended = refused(&text, &[]).await;
        assert!(ended.stderr.contains(said), "{said}: {ended:?}");
        assert!(ended.stderr.contains("registry.toml, line"), "{ended:?}");
        assert_eq!(ended.stderr.lines().count(), 2, "{ended:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn values_of_the_wrong_type_are_not_repeated() {
    for (key, value, said) in [
        (
            "CONTROL__TOKENS",
            format!("grt_{SECRET}"),
            "control.tokens (GENE_REGISTRY__CONTROL__TOKENS): must be a list",
        ),
        ("CONTROL__TOKENS", format!("[grt_{SECRET}]"), "control.tokens.0"),
        (
            "CONTROL__TOKENS",
            format!("[{{user=\"a\",sha256=\"grt_{SECRET}\"}}]"),
            "control.tokens.0.sha256",
        ),
        (
            "CONTROL__TOKENS",
            format!("[{{user=\"a\",sha256=\"{}\",expires=[\"{SECRET}\"]}}]", "0".repeat(64)),
            "must be a time in quotes, such as \"2030-01-31T12:00:00Z\"",
        ),
        (
            "KEYS",
            format!("usage_database_url='postgres://u:{SECRET}@h/db"),
            "keys (GENE_REGISTRY__KEYS): must be a section",
        ),
        (
            "REDIS__SENTINEL",
            SECRET.to_owned(),
            "redis.sentinel (GENE_REGISTRY__REDIS__SENTINEL): must be a section",
        ),
        ("REDIS__TOPOLOGY", SECRET.to_owned(), "must be \"single\", \"sentinel\" or \"cluster\""),
        ("REDIS__POOL_SIZE", SECRET.to_owned(), "must be a whole number"),
        (
            "SERVER__BIND",
            SECRET.to_owned(),
            "must be an address with a port, such as 127.0.0.1:8080",
        ),
        (
            "SERVER__TRUSTED_PROXIES",
            format!("[\"{SECRET}\"]"),
            "must be an address, or a network such as",
        ),
        ("KEYS__ACCEPT_FOREIGN", SECRET.to_owned(), "must be true or false"),
        ("TELEMETRY__SAMPLE_RATIO", SECRET.to_owned(), "must be a number"),
        ("SERVER__CORS__ORIGINS", SECRET.to_owned(), "must be a list"),
        (
            "SERVER__CORS__ORIGINS",
            format!("[\"https://u:{SECRET}@h\"]"),
            "server.cors.origins: must",
        ),
        ("REDIS__URLS", SECRET.to_owned(), "not a list of URLs"),
        ("UPSTREAM__READ_URLS", SECRET.to_owned(), "not a usable URL"),
    ] {
        let variable = format!("GENE_REGISTRY__{key}");
        let ended = refused("", &[(&variable, value)]).await;
        assert!(ended.stderr.contains(said), "{said}: {ended:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn urls_that_clients_see_have_no_user() {
    for (text, key) in [
        (format!("server.public_url = \"https://u:{SECRET}@h/\""), "server.public_url: must begin"),
        (format!("server.public_url = \"https://{SECRET}@h\""), "server.public_url: must begin"),
        (
            format!("control.public_url = \"https://u:{SECRET}@h\""),
            "control.public_url: must begin",
        ),
        (format!("control.oidc.issuer = \"https://u:{SECRET}@h\""), "control.oidc.issuer: must be"),
        (
            format!(
                "control.oidc = {{ issuer = \"https://h\", audience = \"https://u:{SECRET}@h\", \
                 client_id = \"c\", resource = \"https://u:{SECRET}@h/\" }}"
            ),
            "control.oidc.resource: must not contain a user",
        ),
        (
            format!("telemetry.otlp_endpoint = \"http://u:{SECRET}@h:4318\""),
            "telemetry.otlp_endpoint",
        ),
    ] {
        let ended = refused(&text, &[]).await;
        assert!(ended.stderr.contains(key), "{key}: {ended:?}");
    }
    let with_at = "server.public_url = \"https://h/@a\"\ncontrol.oidc.resource = \"urn:a@b\"";
    let path = file_with(with_at);
    let check = gene_registry(["config", "check", "--config", path.to_str().unwrap()]);
    run(check.env("DATABASE_URL", URL)).await.ok();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_at_sign_in_the_password_of_a_database_is_refused_with_the_remedy() {
    let url = format!("postgres://u:pa@{SECRET}@h/db");
    for (variable, value, key) in [
        ("DATABASE_URL", url.clone(), "upstream.url: "),
        ("CONTROL_DATABASE_URL", url.clone(), "control.database_url: "),
        ("USAGE_DATABASE_URL", url.clone(), "keys.usage_database_url: "),
        ("GENE_REGISTRY__UPSTREAM__READ_URLS", format!("[\"{url}\"]"), "upstream.read_urls: "),
    ] {
        for command in [&["config", "check"][..], &["serve"]] {
            let launch = gene_registry(command).env("DATABASE_URL", URL).env(variable, &value);
            let ended = run(launch).await.failed(1, &[SECRET]);
            let line = ended.stderr.lines().find(|line| line.trim_start().starts_with(key));
            assert!(line.is_some_and(|line| line.contains("written as %40")), "{key}: {ended:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_cannot_be_read_is_named_with_the_reason() {
    let folder = scratch_folder("config");
    for (path, why) in [
        ("/nowhere/registry.toml".into(), "no such file or directory"),
        (folder.clone(), "is a directory"),
    ] {
        let path: PathBuf = path;
        let path = path.to_str().unwrap();
        for command in [&["config", "check"][..], &["serve"], &["migrate"], &["healthcheck"]] {
            let launch = gene_registry([command, &["--config", path]].concat());
            let ended = run(launch.env("DATABASE_URL", URL)).await.failed(1, &[]);
            let said = format!(
                "gene-registry: the configuration cannot be used:\n  cannot read {path}: {why}\n"
            );
            assert_eq!(ended.stderr, said);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn certificates_that_cannot_be_read_are_named_without_their_content() {
    let malformed = scratch_folder("pem").join("ca.pem");
    std::fs::write(&malformed, format!("-----BEGIN {SECRET}\n")).unwrap();
    for (file, why) in [
        ("/nowhere.pem", "no such file or directory"),
        (malformed.to_str().unwrap(), "malformed PEM"),
    ] {
        let key = "upstream.tls_ca_file";
        let path = file_with(&format!("{key} = {file:?}"));
        let check = gene_registry(["config", "check", "--config", path.to_str().unwrap()]);
        let ended = run(check.env("DATABASE_URL", URL)).await.failed(1, &[SECRET]);
        assert!(ended.stderr.contains(&format!("{key}: {file}: {why}\n")), "{ended:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn config_print_masks_only_secrets_that_are_set() {
    let printed = run(gene_registry(["config", "print"]).env("REDIS_URL", "")).await.ok().stdout;
    for line in ["upstream.read_urls = []  # default", "redis.url = \"\"  # REDIS_URL"] {
        assert!(printed.lines().any(|printed| printed == line), "{line}: {printed}");
    }
}
