//! TLS to Redis: if a private authority is configured, it alone is trusted.

use super::logins::assert_used;
use crate::support::authority::{Authority, EXPIRED, VALID};
use crate::support::binary::ReplicaProcess;
use crate::support::free_port;
use crate::support::need_own_servers;
use crate::support::postgres::PostgresServer;
use crate::support::redis::RedisServer;
use crate::support::replica::{READER, sample};
use crate::support::traffic::uncached_path;
use crate::support::wait::eventually;

/// A server that also serves TLS, and its URL.
async fn encrypted(authority: &Authority, name: &str, years: (i32, i32)) -> (RedisServer, String) {
    let (certificate, key) = authority.certify(name, years);
    let port = free_port().to_string();
    let redis = RedisServer::start(&[
        "--tls-port",
        &port,
        "--tls-cert-file",
        certificate.to_str().unwrap(),
        "--tls-key-file",
        key.to_str().unwrap(),
        "--tls-ca-cert-file",
        authority.file.to_str().unwrap(),
        "--tls-auth-clients",
        "no",
    ])
    .await;
    (redis, format!("rediss://127.0.0.1:{port}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_private_authority_is_trusted_if_it_is_configured() {
    need_own_servers!();
    let authority = Authority::new();
    let (redis, url) = encrypted(&authority, "127.0.0.1", VALID).await;
    assert_used(&redis, |config| {
        config.redis.url = Some(url.into());
        config.redis.tls_ca_file = Some(authority.file.clone());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_certificate_is_refused_and_the_log_says_why_once() {
    need_own_servers!();
    let (ours, theirs) = (Authority::new(), Authority::new());
    for (certifier, name, years, reason) in [
        (&ours, "127.0.0.1", EXPIRED, "expired"),
        (&ours, "other.example", VALID, "not valid for name"),
        (&theirs, "127.0.0.1", VALID, "BadSignature"),
    ] {
        let (redis, url) = encrypted(certifier, name, years).await;
        let database = sample(PostgresServer::shared().await).await;
        let key = database.new_key(1_000_000).await;
        let process = ReplicaProcess::start(&[
            ("DATABASE_URL", &database.url_as(READER)),
            ("REDIS_URL", &url),
            ("GENE_REGISTRY__REDIS__TIMEOUT_MS", "5000"),
            ("GENE_REGISTRY__REDIS__TLS_CA_FILE", ours.file.to_str().unwrap()),
        ])
        .await;
        eventually(std::time::Duration::from_secs(20), "the log has the cause", || async {
            assert_eq!(process.replica.get(&uncached_path(), Some(&key)).await.status, 200);
            process.lines_with(&["WARN", "cannot connect to redis", reason]) > 0
        })
        .await;
        // It retries twice a second.
        let in_use = "gene_registry_redis_in_use{side=\"write\"}";
        for _ in 0..200 {
            assert_eq!(process.replica.get(&uncached_path(), Some(&key)).await.status, 200);
        }
        assert_eq!(process.replica.metric(in_use).await, Some(0.0));
        assert_eq!(process.lines_with(&["cannot connect to redis"]), 1, "{}", process.log());
        let counters = redis.keys("gr").await;
        assert!(counters.is_empty(), "{counters:?}");
    }
}
