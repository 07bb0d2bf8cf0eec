//! Every error has the documented JSON body and code, on the real listener, with and without Redis.

mod broken_rows;
mod heads;
mod hosts;
mod invented_keys;
mod keys;
mod methods;
mod order;
mod parameters;
mod routes;

use crate::support::database::Database;
use crate::support::postgres::PostgresServer;
use crate::support::redis::RedisServer;
use crate::support::replica::{Fleet, Replica, Response, long_timeouts};

/// A gene of the sample registry.
const GENE: &str = "db8dde37-1518-4afb-94b1-f5723d34ff6e";

/// A valid request for each operation, below `/v1`.
const OPERATIONS: [&str; 3] = [
    "/genes",
    "/genes/db8dde37-1518-4afb-94b1-f5723d34ff6e/phenotype",
    "/arena/insights?domain=search",
];

/// The sample registry behind two replicas: one with Redis, one without.
struct RefusalSetup {
    database: Database<'static>,
    replicas: [Replica; 2],
    /// The prefix of the first replica's Redis keys.
    prefix: String,
    /// A key that never reaches its limit.
    key: String,
}

impl RefusalSetup {
    async fn start() -> Self {
        let (postgres, redis) = (PostgresServer::shared().await, RedisServer::shared().await);
        let Fleet { database, prefix, mut config, mut replicas } =
            Fleet::start_with(1, postgres, redis, long_timeouts).await;
        config.redis.url = None;
        let replicas = [replicas.remove(0), Replica::start(&config).await];
        let key = database.new_key(1_000_000).await;
        Self { database, replicas, prefix, key }
    }

    /// Sends both replicas a GET for a target below `/v1`, exactly as given.
    async fn raw_get(&self, target: &str) -> [Response; 2] {
        let [with, without] = &self.replicas;
        [with.raw_get(target, &self.key).await, without.raw_get(target, &self.key).await]
    }
}

/// Checks what all errors have in common.
#[track_caller]
fn assert_refusal(response: &Response, status: u16, code: &str) {
    response.assert_refused(status, code);
    assert_eq!(response.header("cache-control"), "no-store", "{response:?}");
    assert!(is_request_id(response.header("x-request-id")), "{response:?}");
}

fn is_request_id(id: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    (1..=64).contains(&id.len()) && id.bytes().all(allowed)
}

/// Checks the error of a parameter: first its name, then the given value, cut to 64 characters.
#[track_caller]
fn assert_names(response: &Response, code: &str, name: &str, given: &str) {
    assert_refusal(response, 400, code);
    let error = response.json()["error"].as_str().unwrap().to_owned();
    assert!(error.starts_with(&format!("{name} ")), "{error}");
    let cut: String = given.chars().take(64).collect();
    let more = if cut.len() < given.len() { "…" } else { "" };
    assert!(error.ends_with(&format!("given: {cut:?}{more}")), "{given:?}: {error}");
}
