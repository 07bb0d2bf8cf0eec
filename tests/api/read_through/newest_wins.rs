//! An earlier read never replaces a later one: in Redis by the scripts, in the replica by
//! comparison.

use std::sync::atomic::Ordering;
use std::time::Duration;

use ::redis::Value;
use gene_registry::redis::scripts::{DELETE_IF_OLDER, PUT_IF_NEWER};
use gene_registry::redis::{AccessMode, Call, RedisPool};
use gene_registry::upstream::Postgres;

use super::{
    TIMEOUT, assert_ok, entry_keys, fleet_with_probe, long_timeouts, start_replica,
    wait_until_ready,
};
use crate::support::postgres::PostgresServer;
use crate::support::probe::{Hold, Probe};
use crate::support::redis::RedisServer;
use crate::support::replica::Fleet;
use crate::support::traffic::uncached_path;
use crate::support::wait::eventually;

const FORMAT: u8 = 7;

/// Bytes with a header like that of an entry.
fn entry(format: u8, read_at: &str, body: &str) -> Vec<u8> {
    let mut bytes = vec![format, 1, 2, 3, 4];
    bytes.extend(read_at.as_bytes());
    bytes.extend(body.as_bytes());
    bytes
}

fn at(micros: u64) -> String {
    format!("{micros:016x}")
}

struct EntrySetup {
    pool: RedisPool,
    key: String,
    lease: String,
}

impl EntrySetup {
    async fn new() -> Self {
        let redis = RedisServer::shared().await;
        let pool = RedisPool::new(redis.servers(), 2, Duration::from_secs(5));
        let prefix = RedisServer::new_prefix();
        let [key, lease] = ["entry", "lease"].map(|kind| format!("{prefix}:{kind}"));
        Self { pool, key, lease }
    }

    async fn run(&self, call: Call) -> i64 {
        let reply = self.pool.run(AccessMode::Write, &[call]).await.unwrap().remove(0).unwrap();
        let Value::Int(number) = reply else { panic!("{reply:?}") };
        number
    }

    async fn put_if_newer(&self, read_at: u64, body: &str, ms: u32) -> i64 {
        let call = Call::script_on(&PUT_IF_NEWER, [&self.key, &self.lease])
            .arg(entry(FORMAT, &at(read_at), body))
            .arg(at(read_at))
            .arg(ms.to_string())
            .arg(vec![FORMAT])
            .arg(ms.to_string())
            .arg("owner");
        self.run(call).await
    }

    /// Stores an entry as the cache does: for a minute if there is none yet, or not then.
    async fn put_new(&self, is_new_stored: bool) -> i64 {
        let call = Call::script_on(&PUT_IF_NEWER, [&self.key, &self.lease])
            .arg(entry(FORMAT, &at(1), "new"))
            .arg(at(1))
            .arg("600000")
            .arg(vec![FORMAT])
            .arg(if is_new_stored { "60000" } else { "0" })
            .arg("");
        self.run(call).await
    }

    async fn delete_if_older(&self, read_at: u64) -> i64 {
        self.run(Call::script(&DELETE_IF_OLDER, &self.key).arg(at(read_at))).await
    }

    /// The bytes after the header.
    async fn body(&self) -> Option<String> {
        let redis = RedisServer::shared().await;
        let text: Option<Vec<u8>> = redis.command(&["GET", &self.key]).await;
        text.map(|bytes| String::from_utf8_lossy(&bytes[21..]).into_owned())
    }

    async fn put(&self, bytes: Vec<u8>) {
        let mut connection = RedisServer::shared().await.connect().await.unwrap();
        let set = ::redis::cmd("SET").arg(&self.key).arg(bytes).to_owned();
        let () = set.query_async(&mut connection).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn put_if_newer_accepts_later_reads_and_rejects_earlier_ones() {
    let setup = EntrySetup::new().await;
    let redis = RedisServer::shared().await;
    assert_eq!(setup.put_if_newer(1_000, "first", 60_000).await, 1);
    assert_eq!(setup.put_if_newer(999, "earlier", 600_000).await, 0);
    assert_eq!(setup.body().await.as_deref(), Some("first"));
    let left: i64 = redis.command(&["PTTL", &setup.key]).await;
    assert!((1..=60_000).contains(&left), "a refusal prolongs nothing: {left}");
    assert_eq!(setup.put_if_newer(1_000, "as late", 60_000).await, 1);
    assert_eq!(setup.put_if_newer(0x10_0000, "later by a digit", 60_000).await, 1);
    assert_eq!(setup.put_if_newer(0xf_ffff, "earlier by one", 60_000).await, 0);
    assert_eq!(setup.body().await.as_deref(), Some("later by a digit"));
}

#[tokio::test(flavor = "multi_thread")]
async fn put_if_newer_releases_the_lease_of_its_owner_alone() {
    let setup = EntrySetup::new().await;
    let redis = RedisServer::shared().await;
    for (owner, read_at, is_released) in
        [("owner", 1_000, true), ("owner", 999, true), ("another", 1_001, false)]
    {
        let () = redis.command(&["SET", &setup.lease, owner]).await;
        setup.put_if_newer(read_at, "body", 60_000).await;
        let left: Option<String> = redis.command(&["GET", &setup.lease]).await;
        assert_eq!(left.is_none(), is_released, "{owner} {read_at}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn put_if_newer_tells_a_new_entry_from_one_that_replaces_another() {
    let setup = EntrySetup::new().await;
    let redis = RedisServer::shared().await;
    let left = async || redis.command::<i64>(&["PTTL", &setup.key]).await;
    assert_eq!(setup.put_new(false).await, 0, "there is no room");
    assert_eq!(setup.body().await, None);
    assert_eq!(setup.put_new(true).await, 1);
    assert!((1..=60_000).contains(&left().await));
    assert_eq!(setup.put_new(false).await, 1, "replacing takes no room");
    assert!((60_001..=600_000).contains(&left().await));
}

#[tokio::test(flavor = "multi_thread")]
async fn put_if_newer_replaces_values_of_another_format() {
    let setup = EntrySetup::new().await;
    let late = at(u64::MAX >> 1);
    for rubbish in [
        Vec::new(),
        b"short".to_vec(),
        entry(FORMAT, "zzzzzzzzzzzzzzzz", "no time"),
        entry(FORMAT + 1, &late, "another format"),
        entry(FORMAT, "9999999999999 \0\u{7f}", "no digits"),
        vec![0xff; 500],
    ] {
        setup.put(rubbish.clone()).await;
        assert_eq!(setup.put_if_newer(1, "kept", 60_000).await, 1, "{rubbish:?}");
        assert_eq!(setup.body().await.as_deref(), Some("kept"));
    }
    let redis = RedisServer::shared().await;
    let left: i64 = redis.command(&["PTTL", &setup.key]).await;
    assert!(left > 0, "a value without expiry gets one: {left}");
    for words in [["RPUSH", &setup.key, "x", "y"], ["HSET", &setup.key, "x", "y"]] {
        let () = redis.command(&["DEL", &setup.key]).await;
        let () = redis.command(&words).await;
        assert_eq!(setup.put_if_newer(1, "kept", 60_000).await, 1, "{words:?}");
        assert_eq!(setup.body().await.as_deref(), Some("kept"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn delete_if_older_deletes_earlier_reads_only() {
    let setup = EntrySetup::new().await;
    let redis = RedisServer::shared().await;
    assert_eq!(setup.delete_if_older(5).await, 0, "nothing there");
    setup.put_if_newer(10, "kept", 60_000).await;
    assert_eq!(setup.delete_if_older(9).await, 0);
    assert_eq!(setup.body().await.as_deref(), Some("kept"));
    assert_eq!(setup.delete_if_older(10).await, 1);
    assert_eq!(setup.body().await, None);
    let () = redis.command(&["RPUSH", &setup.key, "x"]).await;
    assert_eq!(setup.delete_if_older(1).await, 1);
    setup.put(b"short".to_vec()).await;
    assert_eq!(setup.delete_if_older(1).await, 1);
}

/// In whichever order many replicas write, the value of the latest read remains.
#[tokio::test(flavor = "multi_thread")]
async fn the_latest_read_remains_after_concurrent_writes() {
    let setup = EntrySetup::new().await;
    let times = (0..200_u64).map(|n| 1 + n.wrapping_mul(7919) % 200);
    let writes = times.map(|time| {
        let setup = &setup;
        async move { setup.put_if_newer(time, &time.to_string(), 60_000).await }
    });
    futures_util::future::join_all(writes).await;
    assert_eq!(setup.body().await.as_deref(), Some("200"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_write_of_an_early_read_changes_no_entry_in_redis_or_in_a_replica() {
    let (fleet, probe) = fleet_with_probe(|_| {}).await;
    let (key, path) = (fleet.database.new_key(1_000_000).await, uncached_path());
    // Each replica has its own entry, since the shared ones are past their age.
    probe.age_by(70_000);
    for replica in &fleet.replicas {
        let response = replica.get(&path, Some(&key)).await;
        assert_ok(&response);
    }
    let [entry] = entry_keys(&fleet).await.try_into().unwrap();
    let redis = RedisServer::shared().await;
    let read_at = async || -> String { redis.command(&["GETRANGE", &entry, "5", "20"]).await };
    let mut newest = read_at().await;
    // Reads with earlier and later times, in turn.
    for (older_by, replica) in [(69_000, 0), (69_500, 1), (68_000, 2), (69_900, 0), (67_000, 1)] {
        probe.age_by(older_by);
        let response = fleet.replicas[replica].get(&path, Some(&key)).await;
        assert_ok(&response);
        let now = read_at().await;
        assert!(now >= newest, "{now} {newest}");
        newest = now;
        let age: i64 = response.header("age").parse().unwrap();
        assert!(age <= 70_100, "{age}");
    }
    // With the database down, every replica sends the newest entry.
    probe.set_failing(true);
    for replica in &fleet.replicas {
        let response = replica.get(&path, Some(&key)).await;
        assert_eq!(response.header("cache-status"), "gene-registry; fwd=stale; fwd-status=502");
        let age: i64 = response.header("age").parse().unwrap();
        assert!((67_000..67_600).contains(&age), "{age}");
    }
}

/// A new entry is written without checking whether one exists by now, but only if none does.
#[tokio::test(flavor = "multi_thread")]
async fn an_entry_that_arrives_during_a_read_is_replaced_unless_it_is_newer() {
    let (mut fleet, probe) = fleet_with_probe(|_| {}).await;
    let (key, redis) = (fleet.database.new_key(1_000_000).await, RedisServer::shared().await);
    assert_ok(&fleet.replicas[0].get(&uncached_path(), Some(&key)).await);
    let [other] = entry_keys(&fleet).await.try_into().unwrap();
    let mut connection = redis.connect().await.unwrap();
    let mut later: Vec<u8> =
        ::redis::cmd("GET").arg(&other).query_async(&mut connection).await.unwrap();
    later[5..21].copy_from_slice(b"00ffffffffffffff");

    for (came, stays) in [(b"earlier".to_vec(), false), (later, true)] {
        let (path, replica) = (uncached_path(), fleet.replicas.remove(0));
        probe.hold(Hold::Everything);
        let reading = replica.get(&path, Some(&key));
        let meanwhile = async {
            let leases = format!("{}:lease", fleet.prefix);
            eventually(TIMEOUT, "the replica has the lease", || async {
                redis.keys(&leases).await.len() == 1
            })
            .await;
            let [lease] = redis.keys(&leases).await.try_into().unwrap();
            let response = lease.replace(":lease:", ":entry:");
            let mut connection = connection.clone();
            let set = ::redis::cmd("SET").arg(&response).arg(&came).to_owned();
            let () = set.query_async(&mut connection).await.unwrap();
            probe.hold(Hold::Nothing);
            response
        };
        let (read, response) = tokio::join!(reading, meanwhile);
        assert_ok(&read);
        // Waits for the publication.
        replica.shutdown().await;
        let mut connection = connection.clone();
        let get = ::redis::cmd("GET").arg(&response).to_owned();
        let now: Vec<u8> = get.query_async(&mut connection).await.unwrap();
        assert_eq!(now == came, stays, "{now:?}");
    }
    assert_eq!(redis.keys(&format!("{}:lease", fleet.prefix)).await, Vec::<String>::new());
}

/// Such a page counts as read when its total was, and shows more.
#[tokio::test(flavor = "multi_thread")]
async fn a_read_between_those_of_a_total_and_its_page_does_not_replace_the_page() {
    let (postgres, redis) = (PostgresServer::shared().await, RedisServer::shared().await);
    let mut fleet = Fleet::start_with(0, postgres, redis, long_timeouts).await;
    let [early, late, any] = [(); 3].map(|()| {
        Probe::new(Postgres::new(&fleet.config.upstream, "install {id}".to_owned()).unwrap())
    });
    for probe in [&early, &late, &any] {
        fleet.replicas.push(start_replica(&fleet, probe).await);
    }
    wait_until_ready(&fleet.replicas).await;
    let (client, key) = (fleet.database.connect().await, fleet.database.new_key(1_000_000).await);
    // Scores are not in the change log, so the total stays current.
    let change = "update registry.gene set fitness_score = fitness_score + 1";
    for replica in &fleet.replicas {
        assert_ok(&replica.get(&uncached_path(), Some(&key)).await);
    }
    assert_ok(&fleet.replicas[1].get("/genes?domain=search&limit=1", Some(&key)).await);
    client.batch_execute(change).await.unwrap();

    early.hold(Hold::Results);
    let path = "/genes?domain=search&limit=2";
    let between = fleet.replicas[0].get(path, Some(&key));
    let later = async {
        eventually(TIMEOUT, "it has been read", || async { early.waiting() > 0 }).await;
        // As if it had expired.
        for lease in redis.keys(&format!("{}:lease", fleet.prefix)).await {
            let () = redis.command(&["DEL", &lease]).await;
        }
        client.batch_execute(change).await.unwrap();
        let later = fleet.replicas[1].get(path, Some(&key)).await;
        early.hold(Hold::Nothing);
        later
    };
    let (between, later) = tokio::join!(between, later);
    assert_ok(&between);
    assert_ok(&later);
    assert!(between.text != later.text && late.pages.load(Ordering::SeqCst) == 1);

    let shared = fleet.replicas[2].get(path, Some(&key)).await;
    assert_eq!(shared.text, later.text, "{shared:?}");
}
