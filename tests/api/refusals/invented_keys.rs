//! Invented keys of the right format, 2,000 a second: valid keys that the replica has never seen are
//! served, directly and behind the balancer, by IPv4 and IPv6.

use gene_registry::config::Config;
use gene_registry::keys::ApiKey;
use reqwest::{Client, RequestBuilder};

use crate::support::database::Database;
use crate::support::flood::{Flood, client_from};
use crate::support::haproxy::HaProxy;
use crate::support::postgres::PostgresServer;
use crate::support::random_hex;
use crate::support::redis::RedisServer;
use crate::support::replica::{Fleet, Replica, long_timeouts};

const INVENTED_PER_SECOND: u32 = 2_000;
const STREAMS: u32 = 32;

/// More than a source may look up before it is served last.
const OVER_BUDGET: usize = 300;

/// Keys that each caller uses for the first time.
const KEYS: usize = 10;

/// A client, and how it reaches the service.
#[derive(Clone)]
struct Caller {
    client: Client,
    /// A base URL, which ends in `/v1`.
    base: String,
    /// `X-Forwarded-For`, in which `*` is replaced by random digits.
    hops: Option<&'static str>,
}

impl Caller {
    fn new(address: &str, base: &str) -> Self {
        Self { client: client_from(address), base: base.to_owned(), hops: None }
    }

    /// A caller whose proxy, at 127.0.0.1, reports these addresses.
    fn behind_proxy(hops: &'static str, base: &str) -> Self {
        Self { hops: Some(hops), ..Self::new("127.0.0.1", base) }
    }

    fn get(&self, key: &str) -> RequestBuilder {
        let request = self.client.get(format!("{}/genes", self.base)).header("X-API-Key", key);
        match self.hops {
            Some(hops) => request.header("X-Forwarded-For", hops.replace('*', &random_hex(2))),
            None => request,
        }
    }
}

/// A replica that has just started and has seen no key.
async fn new_replica(change: impl FnOnce(&mut Config)) -> (Database<'static>, Replica) {
    let (postgres, redis) = (PostgresServer::shared().await, RedisServer::shared().await);
    let mut fleet = Fleet::start_with(1, postgres, redis, |config| {
        long_timeouts(config);
        change(config);
    })
    .await;
    (fleet.database, fleet.replicas.remove(0))
}

/// The base URL of a replica that listens on all addresses, by IPv6.
fn ipv6(base: &str) -> String {
    base.replace("127.0.0.1", "[::1]")
}

/// While `stranger` sends invented keys, each of `callers` uses valid keys for the first time.
async fn assert_served_beside(stranger: Caller, callers: &[Caller], database: &Database<'_>) {
    let flood = Flood::start(STREAMS, INVENTED_PER_SECOND, move || {
        stranger.get(ApiKey::generate().unwrap().expose())
    });
    flood.answered(OVER_BUDGET).await;
    for caller in callers {
        for number in 0..KEYS {
            let key = database.new_key(1_000).await;
            let response = caller.get(&key).send().await.unwrap();
            assert_eq!(response.status(), 200, "key {number} from {:?}: {response:?}", caller.hops);
        }
    }
    let statuses = flood.stop().await;
    assert!(statuses.iter().all(|status| [401, 503].contains(status)), "{statuses:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn unseen_valid_keys_are_served_beside_invented_ones_from_another_or_the_same_address() {
    let (database, replica) = new_replica(|_| {}).await;
    let from = |address| Caller::new(address, &replica.base);
    let callers = [from("127.0.0.3"), from("127.0.0.2")];
    assert_served_beside(from("127.0.0.2"), &callers, &database).await;
    let unknown = replica.metric("gene_registry_unknown_keys_total").await;
    assert!(unknown.is_some_and(|unknown| unknown >= OVER_BUDGET as f64 / 2.0), "{unknown:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn unseen_valid_keys_are_served_beside_invented_ones_over_ipv6() {
    for is_stranger_ipv6 in [true, false] {
        let (database, replica) =
            new_replica(|config| config.server.bind = "[::]:0".parse().unwrap()).await;
        let mut callers =
            [Caller::new("127.0.0.2", &replica.base), Caller::new("::1", &ipv6(&replica.base))];
        if is_stranger_ipv6 {
            callers.reverse();
        }
        let [stranger, caller] = callers;
        assert_served_beside(stranger, &[caller], &database).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn unseen_valid_keys_are_served_beside_invented_ones_that_a_proxy_reports() {
    let (database, replica) = new_replica(|config| {
        config.server.trusted_proxies = vec!["127.0.0.1".parse().unwrap()];
    })
    .await;
    let behind = |hops| Caller::behind_proxy(hops, &replica.base);
    // The entries before the last one are invented too.
    let stranger = behind("192.0.2.1, 2001:db8:*::1, 2001:db8:1:1:*::2");
    let callers = [behind("192.0.2.1"), behind("2001:db8:1:2::2"), behind("2001:db8:2:1::2")];
    assert_served_beside(stranger, &callers, &database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unseen_valid_keys_are_served_beside_invented_ones_behind_the_balancer() {
    for trusted in [vec!["127.0.0.1".parse().unwrap()], vec![]] {
        let (database, replica) =
            new_replica(|config| config.server.trusted_proxies = trusted).await;
        let balancer = HaProxy::start(&replica.base, &replica.ops).await;
        let base = |host| format!("{}/v1", balancer.url(host));
        let (ipv4, ipv6) = (base("127.0.0.1"), base("[::1]"));
        let mut stranger = Caller::new("127.0.0.2", &ipv4);
        // It claims to be the other caller.
        stranger.hops = Some("127.0.0.3");
        let callers = [Caller::new("127.0.0.3", &ipv4), Caller::new("::1", &ipv6)];
        assert_served_beside(stranger, &callers, &database).await;
    }
}
