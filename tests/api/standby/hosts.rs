//! Several hosts in one URL.

use gene_registry::config::UpstreamConfig;
use gene_registry::registry::GeneSearch;
use gene_registry::upstream::{ChangeFeed, Postgres, RegistryReader, UpstreamError};

use crate::support::database::Database;
use crate::support::need_own_servers;
use crate::support::postgres::PostgresServer;
use crate::support::proxy::{FaultProxy, Mode};
use crate::support::replica::{READER, config, sample};
use crate::support::standby::primary;

/// A URL of several hosts (`host:port`).
fn url(hosts: &[&str], database: &Database<'_>, query: &str) -> String {
    format!("postgres://{READER}@{}/{}?{query}", hosts.join(","), database.name())
}

fn upstream(url: &str, change: impl FnOnce(&mut UpstreamConfig)) -> Postgres {
    let mut upstream = config(url, None).upstream;
    // Time in which even a loaded machine connects and reads.
    (upstream.connect_ms, upstream.wait_ms) = (1_200, 5_000);
    (upstream.query_ms, upstream.deadline_ms) = (2_000, 10_000);
    change(&mut upstream);
    Postgres::new(&upstream, "{id}".to_owned()).unwrap()
}

async fn read(upstream: &Postgres) -> Result<u64, UpstreamError> {
    let found = upstream.search(&GeneSearch::default()).await?;
    Ok(found.value.total.get())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unresponsive_first_host_costs_a_fraction_of_the_timeout() {
    let postgres = PostgresServer::shared().await;
    let database = sample(postgres).await;
    let first = FaultProxy::start(postgres.addr()).await;
    let (first_addr, second) = (first.addr().to_string(), postgres.addr());
    let url = url(&[&first_addr, &second], &database, "");

    first.set(Mode::Stall).await;
    for _ in 0..3 {
        let starting = upstream(&url, |_| {});
        assert!(read(&starting).await.unwrap() > 0);
        starting.position().await.unwrap();
    }

    first.set(Mode::Pass).await;
    let later = upstream(&url, |_| {});
    read(&later).await.unwrap();
    let connections = first.accepted();
    first.set(Mode::Stall).await;
    for _ in 0..3 {
        // Existing connections have gone silent, and new ones hang.
        assert!(read(&later).await.unwrap() > 0);
    }
    assert!(connections > 0, "the first host was used while it could be");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusing_host_is_skipped_and_the_error_lists_every_host() {
    let postgres = PostgresServer::shared().await;
    let database = sample(postgres).await;
    let second = FaultProxy::start(postgres.addr()).await;
    let second_addr = second.addr().to_string();
    let upstream = upstream(&url(&["127.0.0.1:1", &second_addr], &database, ""), |_| {});
    assert!(read(&upstream).await.unwrap() > 0);

    second.set(Mode::Refuse).await;

    let Err(UpstreamError::Unreachable(why)) = read(&upstream).await else {
        panic!("the database is unavailable")
    };
    let why = why.to_string();
    assert!(why.contains("host 1: ") && why.contains("host 2: "), "{why}");
    assert!(!why.contains(READER) && !why.contains(database.name()), "{why}");
    second.set(Mode::Pass).await;
    assert!(read(&upstream).await.unwrap() > 0, "the next read is served");
}

#[tokio::test(flavor = "multi_thread")]
async fn hosts_are_selected_by_their_role() {
    need_own_servers!();
    let first = primary().await;
    let database = sample(&first).await;
    let second = first.start_standby().await;
    let hosts = [first.addr(), second.addr()];
    let two_hosts = [hosts[0].as_str(), hosts[1].as_str()];
    for (expected, standby) in [
        ("primary", false),
        ("read-write", false),
        ("standby", true),
        ("read-only", true),
        ("prefer-standby", true),
    ] {
        for hosts in [two_hosts, [two_hosts[1], two_hosts[0]]] {
            let query = format!("target_session_attrs={expected}");
            let upstream = upstream(&url(&hosts, &database, &query), |_| {});
            let found = upstream.position().await.unwrap().server.expect("a server");
            assert_eq!(found.is_standby, standby, "{expected} of {hosts:?}");
            assert!(read(&upstream).await.unwrap() > 0);
        }
    }
    for (expected, host, why) in
        [("primary", two_hosts[1], "is a standby"), ("standby", two_hosts[0], "is a primary")]
    {
        let query = format!("target_session_attrs={expected}");
        let upstream = upstream(&url(&[host], &database, &query), |_| {});
        let Err(UpstreamError::Unreachable(error)) = read(&upstream).await else { panic!() };
        assert!(error.to_string().contains(why), "{error}");
    }
    let query = "target_session_attrs=prefer-standby";
    let upstream = upstream(&url(&two_hosts[..1], &database, query), |_| {});
    assert!(read(&upstream).await.unwrap() > 0, "a primary is used if there is no standby");
}
