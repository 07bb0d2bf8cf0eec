//! Databases that cannot be reached.

use std::net::{IpAddr, UdpSocket};

use super::{Findings, as_reader, healthy, of_url};
use crate::support::authority::{Authority, VALID};
use crate::support::free_port;
use crate::support::postgres::{PostgresOptions, PostgresServer};
use crate::support::replica::READER;
use crate::support::{need_own_servers, record_not_run};

#[tokio::test(flavor = "multi_thread")]
async fn the_remedy_depends_on_why_there_is_no_connection() {
    need_own_servers!();
    let certificate = Authority::new().certify("127.0.0.1", VALID);
    let server = PostgresServer::start(PostgresOptions {
        hba: vec!["host all refused 127.0.0.1/32 reject".to_owned()],
        tls: Some(certificate),
        ..PostgresOptions::default()
    })
    .await;
    let url = |user: &str, database: &str| server.url(database, user);
    for (url, words) in [
        (url("refused", "postgres"), ["pg_hba.conf", "Correct the user and password"]),
        (url("nobody", "postgres"), ["nobody", "Correct the user and password"]),
        (url("postgres", "nowhere"), ["nowhere", "Create the database"]),
        (
            format!("{}?sslmode=require", url("postgres", "postgres")),
            ["certificate", "upstream.tls_ca_file"],
        ),
        (
            format!("{}?sslmode=disable&target_session_attrs=standby", url("postgres", "postgres")),
            ["is a primary", "target_session_attrs"],
        ),
        (
            format!("postgres://a@127.0.0.1:{}/b", free_port()),
            ["refused", "Start the server, or correct its address"],
        ),
    ] {
        let url = if url.contains('?') { url } else { format!("{url}?sslmode=disable") };
        let findings = Findings::of(&of_url(&url)).await;
        findings.assert_serious("database", &words);
        findings.assert_only(&["database"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_over_a_network_without_encryption_is_a_warning() {
    need_own_servers!();
    let Some(address) = own_address() else {
        record_not_run("doctor::database: this machine has no address but 127.0.0.1");
        return;
    };
    let server = PostgresServer::start(PostgresOptions {
        conf: vec!["listen_addresses = '*'".to_owned()],
        ..PostgresOptions::default()
    })
    .await;
    let database = healthy(&server).await;
    Findings::of(&as_reader(&database)).await.assert_only(&[]);
    let url = database.url_as(READER).replace("127.0.0.1", &address.to_string());
    let findings = Findings::of(&of_url(&url)).await;
    findings.assert_warning("database", &["not encrypted", "sslmode=verify-full"]);
    findings.assert_only(&["database"]);
}

/// An address of this machine in a network. Nothing is sent.
fn own_address() -> Option<IpAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    socket.connect("192.0.2.1:9").ok()?;
    let address = socket.local_addr().ok()?.ip();
    (!address.is_loopback() && !address.is_unspecified()).then_some(address)
}
