//! `setup --print-sql`: a new server is ready for the default schema, with passwords that are shown once.

use std::collections::HashMap;

use super::{CommandResult, gene_registry, run, run_on};
use crate::support::need_own_servers;
use crate::support::postgres::{PostgresOptions, PostgresServer};
use crate::support::process::Launch;
use crate::support::replica::{Replica, config, long_timeouts};
use crate::support::scratch_folder;

async fn print_sql(options: &[&str]) -> CommandResult {
    run(gene_registry([&["setup", "--print-sql"], options].concat())).await
}

/// The settings that the command has written for a shell.
fn settings(printed: &CommandResult, server: &PostgresServer) -> HashMap<String, String> {
    let lines = printed.stderr.lines().filter(|line| !line.starts_with('#'));
    let setting = |line: &str| {
        let (name, value) = line.trim_start_matches("export ").split_once('=').unwrap();
        let url = value.trim_matches('\'').replace("@localhost/", &format!("@{}/", server.addr()));
        (name.to_owned(), url)
    };
    lines.map(setting).collect()
}

fn password(url: &str) -> &str {
    url.split(['@', ':']).nth(2).unwrap()
}

/// Runs a script as a superuser.
async fn psql(server: &PostgresServer, script: &str) -> CommandResult {
    let file = scratch_folder("psql").join("script.sql");
    std::fs::write(&file, script).unwrap();
    let url = server.url("postgres", &server.superuser());
    run(Launch::new("psql", "psql").args([&url, "--quiet", "--file"]).arg(file)).await
}

/// A server that asks the roles for passwords.
async fn server() -> PostgresServer {
    let roles =
        "gene_registry_owner,gene_registry_reader,gene_registry_usage,gene_registry_keys,own";
    let hba = vec![format!("host all {roles} 127.0.0.1/32 scram-sha-256")];
    PostgresServer::start(PostgresOptions { hba, ..PostgresOptions::default() }).await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_commands_of_the_readme_work_on_a_new_server() {
    need_own_servers!();
    let server = server().await;
    let printed = print_sql(&[]).await.ok();
    let settings = settings(&printed, &server);
    for url in settings.values() {
        assert!(password(url).len() == 40 && !printed.stdout.contains(password(url)), "{url}");
    }
    let done = psql(&server, &printed.stdout).await.ok();
    assert_eq!((done.stdout.as_str(), done.stderr.as_str()), ("", ""));

    let owner = &settings["OWNER_DATABASE_URL"];
    let migrated = run_on(owner, ["migrate"]).await.ok();
    assert_eq!(migrated.stderr, "", "nothing is left to a superuser");
    let key = run_on(owner, ["seed"]).await.ok().stdout;
    run_on(owner, ["maintain"]).await.ok();
    let mut config = config(&settings["DATABASE_URL"], None);
    long_timeouts(&mut config);
    config.keys.usage_database_url = Some(settings["USAGE_DATABASE_URL"].clone().into());
    config.control.database_url = Some(settings["CONTROL_DATABASE_URL"].clone().into());
    let replica = Replica::start(&config).await;
    assert_eq!(replica.get("/genes", Some(key.trim_end())).await.status, 200);
    let list = ["api-key", "list", "--direct", "--all"];
    run_on(&settings["CONTROL_DATABASE_URL"], list).await.ok();
    let wrong = owner.replace(password(owner), "wrong");
    run_on(&wrong, ["migrate"]).await.failed(1, &["wrong@"]);

    // A second time, neither passwords nor anything else change.
    let again = print_sql(&[]).await.ok();
    let refused = psql(&server, &again.stdout).await;
    assert!(refused.code != 0 && refused.stderr.contains("exists already"), "{refused:?}");
    run_on(owner, ["migrate"]).await.ok();
}

#[tokio::test(flavor = "multi_thread")]
async fn names_and_passwords_may_be_chosen() {
    need_own_servers!();
    let server = server().await;
    let file = scratch_folder("password").join("file");
    std::fs::write(&file, "p@ss:/#%?= ü'\n").unwrap();
    let file = file.to_str().unwrap();
    let chosen = format!("own={file}");
    let options = ["--database", "genes", "--owner", "own", "--password-file", &chosen];
    let printed = print_sql(&options).await.ok();
    let owner = settings(&printed, &server)["OWNER_DATABASE_URL"].clone();
    assert!(
        owner.starts_with("postgres://own:") && owner.ends_with("/genes?sslmode=disable"),
        "{owner}"
    );
    psql(&server, &printed.stdout).await.ok();
    run_on(&owner, ["migrate"]).await.ok();

    for (wrong, word) in [
        (&["--password-file", "nobody=/x"][..], "no role nobody"),
        (&["--password-file", "nobody"], "--password-file"),
        (&["--database", "My"], "--database"),
    ] {
        let refused = print_sql(wrong).await.failed(2, &[]);
        assert!(refused.stderr.contains(word), "{refused:?}");
    }
    print_sql(&["--password-file", "gene_registry_keys=/nowhere"]).await.failed(1, &[]);
    run(gene_registry(["setup"])).await.failed(2, &[]);
}
