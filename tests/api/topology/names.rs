//! Host names of stores are resolved for each new connection.

use std::net::Ipv4Addr;
use std::time::Duration;

use crate::support::binary::ReplicaProcess;
use crate::support::hosts::Hosts;
use crate::support::postgres::PostgresServer;
use crate::support::proxy::{FaultProxy, Mode};
use crate::support::redis::RedisServer;
use crate::support::replica::{READER, sample};
use crate::support::traffic::uncached_path;
use crate::support::wait::eventually;
use crate::support::{free_port, record_not_run, test_name};

const TIMEOUT: Duration = Duration::from_secs(30);

const HOST_NAME: &str = "stores.registry.test";
const OLD_ADDRESS: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
const NEW_ADDRESS: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 3);

/// A URL with the name and `port` instead of its host and port.
fn by_name(url: &str, port: u16) -> String {
    let mut url: reqwest::Url = url.parse().unwrap();
    url.set_host(Some(HOST_NAME)).unwrap();
    url.set_port(Some(port)).unwrap();
    url.to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn stores_that_moved_to_another_address_are_found_by_name() {
    let hosts = Hosts::new(HOST_NAME, &OLD_ADDRESS.to_string());
    if !hosts.are_seen(HOST_NAME) {
        fn here() {}
        record_not_run(&format!("{}: needs mount namespaces", test_name(&here)));
        return;
    }
    let (postgres, redis) = (PostgresServer::shared().await, RedisServer::shared().await);
    let database = sample(postgres).await;
    let key = database.new_key(1_000_000).await;
    let stores = [(free_port(), postgres.addr()), (free_port(), redis.addr())];
    let (mut old, mut new) = (Vec::new(), Vec::new());
    for (port, store) in &stores {
        old.push(FaultProxy::start_at((OLD_ADDRESS, *port), store).await);
        new.push(FaultProxy::start_at((NEW_ADDRESS, *port), store).await);
    }
    let process = ReplicaProcess::start_with(
        &hosts,
        &[
            ("DATABASE_URL", &by_name(&database.url_as(READER), stores[0].0)),
            ("REDIS_URL", &by_name(&redis.url(), stores[1].0)),
            ("GENE_REGISTRY__REDIS__PREFIX", &RedisServer::new_prefix()),
            ("GENE_REGISTRY__REDIS__TIMEOUT_MS", "5000"),
        ],
    )
    .await;
    let serves = async || {
        let response = process.replica.get(&uncached_path(), Some(&key)).await;
        let ready = process.replica.ops("/readyz").await.json();
        response.status == 200 && ready["redis_read"] == "up" && ready["redis_write"] == "up"
    };
    let all_taken = |proxies: &[FaultProxy]| proxies.iter().all(|proxy| proxy.accepted() > 0);
    eventually(TIMEOUT, "both are in use", async || serves().await && all_taken(&old)).await;
    assert!(new.iter().all(|proxy| proxy.accepted() == 0));

    hosts.set(HOST_NAME, &NEW_ADDRESS.to_string());
    for proxy in &old {
        proxy.set(Mode::Refuse).await;
    }

    eventually(TIMEOUT, "both stores are found", async || serves().await && all_taken(&new)).await;
}
