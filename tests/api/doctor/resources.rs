//! Open files and connections.

use super::{Findings, as_reader, healthy};
use crate::commands::{run, without_configuration};
use crate::support::authority::{Authority, EXPIRED};
use crate::support::binary::PROGRAM;
use crate::support::need_own_servers;
use crate::support::postgres::{PostgresOptions, PostgresServer};
use crate::support::process::Launch;
use crate::support::replica::READER;

#[tokio::test(flavor = "multi_thread")]
async fn too_few_open_files_are_a_warning() {
    need_own_servers!();
    let database = healthy(PostgresServer::shared().await).await;
    let script = "ulimit -n 500 && exec \"$@\"";
    let launch = Launch::new("sh", "sh").args(["-c", script, "sh", PROGRAM, "doctor"]);
    let launch = without_configuration(launch).env("DATABASE_URL", database.url_as(READER));
    let ended = run(launch.env("GENE_REGISTRY__SERVER__MAX_CONNECTIONS", "450")).await.ok();
    let warning = "warning: resources: a process may have 500 open files here, and a replica with \
                   450 connections needs 570. ";
    assert!(ended.stdout.starts_with(warning), "{ended:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn too_few_connections_are_a_warning() {
    need_own_servers!();
    let server =
        PostgresServer::start(PostgresOptions { max_connections: 42, ..Default::default() });
    let server = server.await;
    let database = healthy(&server).await;
    let mut config = as_reader(&database);
    config.rate_limit.replicas = 2;
    let findings = Findings::of(&config).await;
    // Three are reserved for the superuser; each replica may open 16 + 2, and commands 3.
    let words = ["max_connections without the reserved ones is 39", "may open 39"];
    assert_eq!(findings.about("resources").count(), 0, "{words:?}: {findings:?}");
    config.upstream.pool_size = 17;
    let limit = format!("alter database {} connection limit 30", database.name());
    database.connect().await.batch_execute(&limit).await.unwrap();
    let findings = Findings::of(&config).await;
    let words = ["max_connections without the reserved ones is 39", "may open 41"];
    findings.assert_warning("resources", &words);
    findings.assert_warning("resources", &["limit of the database is 30", "may open 41"]);
    findings.assert_only(&["resources", "configuration"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_expired_certificate_is_serious() {
    let database = healthy(PostgresServer::shared().await).await;
    let mut config = as_reader(&database);
    let (cert, key) = Authority::new().certify("localhost", EXPIRED);
    (config.server.tls.cert_file, config.server.tls.key_file) = (Some(cert), Some(key));
    let findings = Findings::of(&config).await;
    findings.assert_serious("configuration", &["certificate", "has expired", "[server.tls]"]);
    findings.assert_only(&["configuration"]);
}
