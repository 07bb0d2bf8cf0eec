//! Messages of commands that fail: the cause, then what to do.

use std::net::{Ipv4Addr, TcpListener};

use super::{gene_registry, run, run_on};
use crate::support::free_port;
use crate::support::postgres::PostgresServer;
use crate::support::replica::{READER, migrated};
use crate::support::scratch_folder;

/// The role that manages keys. It does not own the tables.
const KEYS: &str = "gene_registry_keys";

#[tokio::test(flavor = "multi_thread")]
async fn a_database_without_the_default_schema_is_an_error_with_the_remedy() {
    let database = PostgresServer::shared().await.create_database().await;
    for command in [
        &["seed"][..],
        &["maintain"],
        &["api-key", "list", "--direct", "--all"],
        &["api-key", "create", "--direct", "--owner", "a", "--name", "n"],
        &["api-key", "revoke", "--direct", "--all", "--prefix", "gr_zzzz9999"],
    ] {
        let ended = run_on(&database.url(), command).await.failed(1, &[]);
        let said = &ended.stderr;
        assert!(said.contains("default schema"), "{command:?}: {ended:?}");
        assert!(said.contains("run gene-registry migrate"), "{command:?}: {ended:?}");
        assert!(!said.contains("or the connection was lost"), "{command:?}: {ended:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_without_privileges_is_told_whose_they_are() {
    let database = migrated(PostgresServer::shared().await).await;
    for role in [READER, KEYS] {
        let ended = run_on(&database.url_as(role), ["migrate"]).await.failed(1, &[]);
        assert!(ended.stderr.contains("permission denied for "), "{ended:?}");
        for command in ["migrate", "seed", "maintain"] {
            let ended = run_on(&database.url_as(role), [command]).await.failed(1, &[]);
            let remedy = "Run the command on the primary, as the owner of the schema registry";
            assert!(ended.stderr.contains(remedy), "{command}: {ended:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn maintain_every_ends_if_the_configuration_is_wrong() {
    for url in [None, Some("mysql://h/db")] {
        let command = gene_registry(["maintain", "--every", "1s"]);
        let command = url
            .map_or(gene_registry(["maintain", "--every"]), |url| command.env("DATABASE_URL", url));
        let ended = run(command).await.failed(1, &[]);
        assert!(ended.stderr.contains("upstream.url"), "{ended:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn healthcheck_names_the_address_that_does_not_respond() {
    let free = format!("127.0.0.1:{}", free_port());
    let check =
        |address: &str| gene_registry(["healthcheck"]).env("GENE_REGISTRY__OPS__BIND", address);
    let ended = run(check(&free)).await.failed(1, &[]);
    assert_eq!(
        ended.stderr,
        format!("gene-registry: cannot connect to {free}: connection refused\n")
    );

    let silent = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = silent.local_addr().unwrap().to_string();
    let ended = run(check(&address)).await.failed(1, &[]);
    assert_eq!(ended.stderr, format!("gene-registry: {address} did not respond within 2 s\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn files_that_cannot_be_written_or_read_are_named_with_the_reason() {
    let database = migrated(PostgresServer::shared().await).await;
    let missing = scratch_folder("missing").join("none/file");
    let missing = missing.to_str().unwrap();
    let serve = gene_registry(["serve", "--ready-file", missing])
        .env("DATABASE_URL", database.url_as(READER))
        .env("GENE_REGISTRY__SERVER__BIND", "127.0.0.1:0")
        .env("GENE_REGISTRY__OPS__BIND", "127.0.0.1:0");
    let seed = gene_registry(["seed", "--key-file", missing]).env("DATABASE_URL", database.url());
    for (command, said) in [
        (serve, format!("--ready-file: cannot write {missing}: no such file or directory")),
        (seed, format!("cannot read --key-file {missing}: no such file or directory")),
    ] {
        let ended = run(command).await.failed(1, &[]);
        assert!(ended.stderr.contains(&said), "{ended:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rate_limit_out_of_range_is_refused_with_the_range() {
    for wrong in ["-1", "2147483648", "many", ""] {
        let option = format!("--rate-limit={wrong}");
        let create = ["api-key", "create", "--name", "n", option.as_str()];
        let ended = run(gene_registry(create)).await.failed(2, &[]);
        let said = "expected 1 to 2147483647, or 0 with --block";
        assert!(ended.stderr.contains(said), "{wrong}: {ended:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prefix_without_a_key_is_refused_with_the_command_that_lists_the_keys() {
    let database = migrated(PostgresServer::shared().await).await;
    for action in ["revoke", "rotate"] {
        for keys in [&["--all"][..], &["--owner", "a"]] {
            let args = [&["api-key", action, "--direct", "--prefix", "zzzz"], keys].concat();
            let ended = run_on(&database.url(), args).await.failed(2, &[]);
            let said = "there is no key with this prefix; nothing was changed. List the keys: \
                        gene-registry api-key list --direct --all\n";
            assert!(ended.stderr.ends_with(said), "{ended:?}");
        }
    }
}
