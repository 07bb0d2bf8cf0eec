//! Connections to the database: passwords with special characters, unix sockets, IPv6, TLS.

use std::path::{Path, PathBuf};
use std::time::Duration;

use gene_registry::config::Config;

use crate::support::authority::{Authority, EXPIRED, VALID};
use crate::support::binary::ReplicaProcess;
use crate::support::database::Database;
use crate::support::postgres::{PostgresOptions, PostgresServer, SUPERUSER};
use crate::support::replica::{Replica, Response, config, sample};
use crate::support::wait::eventually;
use crate::support::{need_own_servers, record_not_run, test_name};

/// Every character that has a meaning in a URL, and the password in its URL form.
const PASSWORD: &str = "p@:/#%?=&+ w";
const ENCODED_PASSWORD: &str = "p%40%3A%2F%23%25%3F%3D%26%2B%20w";

/// The first response of a replica that reads through this URL.
async fn first_response(
    database: &Database<'_>,
    url: &str,
    change: impl FnOnce(&mut Config),
) -> Response {
    let key = database.new_key(100).await;
    let mut config = config(url, None);
    // A loaded machine takes longer for a handshake.
    config.upstream.connect_ms = 1_500;
    change(&mut config);
    let replica = Replica::start(&config).await;
    replica.get("/genes", Some(&key)).await
}

/// A server on which the reader has a password, by SCRAM.
async fn server_with_password(hba: &[&str], tls: Option<(PathBuf, PathBuf)>) -> PostgresServer {
    let hba = hba.iter().map(|&line| line.to_owned()).collect();
    let conf = vec![
        "password_encryption = 'scram-sha-256'".to_owned(),
        "listen_addresses = '127.0.0.1,::1'".to_owned(),
    ];
    PostgresServer::start(PostgresOptions { hba, conf, tls, ..Default::default() }).await
}

async fn set_password(database: &Database<'_>) {
    let sql = format!("alter role gene_registry_reader password '{PASSWORD}'");
    database.connect().await.batch_execute(&sql).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn passwords_are_percent_encoded_in_urls() {
    need_own_servers!();
    let postgres =
        server_with_password(&["host all gene_registry_reader all scram-sha-256"], None).await;
    let database = sample(&postgres).await;
    set_password(&database).await;

    let right = database.url_as(&format!("gene_registry_reader:{ENCODED_PASSWORD}"));
    let response = first_response(&database, &right, |_| {}).await;
    assert_eq!(response.status, 200, "{response:?}");

    for wrong in ["gene_registry_reader:wr0ng", "gene_registry_reader"] {
        let response = first_response(&database, &database.url_as(wrong), |_| {}).await;
        response.assert_refused(502, "DB_ERROR");
        assert!(!response.text.contains("gene_registry_reader"), "{response:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn unix_sockets_work_with_and_without_a_password() {
    need_own_servers!();
    for method in ["trust", "scram-sha-256"] {
        let line = format!("local all gene_registry_reader {method}");
        let postgres = server_with_password(&[&line], None).await;
        let database = sample(&postgres).await;
        set_password(&database).await;
        let user = format!("gene_registry_reader:{ENCODED_PASSWORD}");
        let folder = postgres.folder().display();
        let (name, port) = (database.name(), postgres.port());

        for url in [
            postgres.socket_url(name, &user),
            format!(
                "postgres:///{name}?host={folder}&port={port}&user=gene_registry_reader&password={ENCODED_PASSWORD}"
            ),
        ] {
            let response = first_response(&database, &url, |_| {}).await;
            assert_eq!(response.status, 200, "{method}: {response:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ipv6_addresses_in_brackets_work() {
    need_own_servers!();
    if std::net::TcpListener::bind("[::1]:0").is_err() {
        fn here() {}
        record_not_run(&format!("{}: needs IPv6", test_name(&here)));
        return;
    }
    let postgres =
        server_with_password(&["host all gene_registry_reader ::1/128 scram-sha-256"], None).await;
    let database = sample(&postgres).await;
    set_password(&database).await;
    let (name, port) = (database.name(), postgres.port());

    let url = format!("postgres://gene_registry_reader:{ENCODED_PASSWORD}@[::1]:{port}/{name}");
    let response = first_response(&database, &url, |_| {}).await;
    assert_eq!(response.status, 200, "{response:?}");
}

/// The first response of a replica in front of a server that accepts only TLS.
async fn response_over_tls(
    certificate: (PathBuf, PathBuf),
    trusted: Option<&Path>,
    mode: &str,
) -> Response {
    let lines = [
        "hostssl all gene_registry_reader all scram-sha-256",
        "hostnossl all gene_registry_reader all reject",
    ];
    let postgres = server_with_password(&lines, Some(certificate)).await;
    let database = sample(&postgres).await;
    set_password(&database).await;
    let url = database.url_as(&format!("gene_registry_reader:{ENCODED_PASSWORD}"));
    first_response(&database, &format!("{url}{mode}"), |config| {
        config.upstream.tls_ca_file = trusted.map(Path::to_path_buf);
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_with_a_private_authority_works_in_every_mode_but_disable() {
    need_own_servers!();
    let authority = Authority::new();
    let certificate = authority.certify("127.0.0.1", VALID);
    let response = |mode| response_over_tls(certificate.clone(), Some(&authority.file), mode);

    for mode in
        ["", "?sslmode=prefer", "?sslmode=require", "?sslmode=verify-ca", "?sslmode=verify-full"]
    {
        let response = response(mode).await;
        assert_eq!(response.status, 200, "{mode}: {response:?}");
    }
    response("?sslmode=disable").await.assert_refused(502, "DB_ERROR");
}

#[tokio::test(flavor = "multi_thread")]
async fn certificates_of_others_are_refused() {
    need_own_servers!();
    let (authority, other) = (Authority::new(), Authority::new());
    let refused = [
        (authority.certify("127.0.0.1", EXPIRED), Some(&authority.file)),
        (other.certify("127.0.0.1", VALID), Some(&authority.file)),
        (authority.certify("db.example", VALID), Some(&authority.file)),
        (authority.certify("127.0.0.1", VALID), None),
    ];
    for (certificate, trusted) in refused {
        for mode in ["", "?sslmode=require", "?sslmode=verify-full"] {
            let response =
                response_over_tls(certificate.clone(), trusted.map(PathBuf::as_path), mode).await;
            response.assert_refused(502, "DB_ERROR");
            assert!(!response.text.to_lowercase().contains("certificate"), "{response:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn verify_ca_ignores_only_the_host_name() {
    need_own_servers!();
    let (authority, other) = (Authority::new(), Authority::new());
    let mode = "?sslmode=verify-ca";
    let named_otherwise = authority.certify("db.example", VALID);
    let response = response_over_tls(named_otherwise, Some(&authority.file), mode).await;
    assert_eq!(response.status, 200, "{response:?}");
    for certificate in [authority.certify("db.example", EXPIRED), other.certify("127.0.0.1", VALID)]
    {
        let response = response_over_tls(certificate, Some(&authority.file), mode).await;
        response.assert_refused(502, "DB_ERROR");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_error_is_logged_once_with_its_cause() {
    need_own_servers!();
    let authority = Authority::new();
    for (certificate, why) in [
        (authority.certify("127.0.0.1", EXPIRED), "expired"),
        (authority.certify("db.example", VALID), "not valid for name"),
    ] {
        let postgres = server_with_password(&[], Some(certificate)).await;
        let database = sample(&postgres).await;
        let process = ReplicaProcess::start(&[
            ("DATABASE_URL", &database.url_as("gene_registry_reader")),
            ("GENE_REGISTRY__UPSTREAM__TLS_CA_FILE", authority.file.to_str().unwrap()),
        ])
        .await;
        eventually(Duration::from_secs(10), "the log has the reason", || async {
            process.log().to_lowercase().contains(why)
        })
        .await;
        process.wait_for_single_line(&["change log", "cannot be read"]).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_tls_on_the_server_require_fails_and_prefer_connects() {
    need_own_servers!();
    let postgres = PostgresServer::start(PostgresOptions::default()).await;
    let database = sample(&postgres).await;
    let url = database.url_as(SUPERUSER);

    let response = first_response(&database, &format!("{url}?sslmode=prefer"), |_| {}).await;
    assert_eq!(response.status, 200, "{response:?}");
    let response = first_response(&database, &format!("{url}?sslmode=require"), |_| {}).await;
    response.assert_refused(502, "DB_ERROR");
}
