//! `[redis]` and `[rate_limit]`: the cache and the counters that replicas share.

use std::fmt;
use std::path::PathBuf;

use secrecy::SecretString;
use serde::{Deserialize, Serialize};

use super::checks::Checks;

/// The Redis of the shared cache and the counters.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RedisConfig {
    /// How its servers are organised.
    pub topology: Topology,
    /// With topology `single`, the server: `redis://…`, `rediss://…` or `redis+unix://…`;
    /// also set by `REDIS_URL`.
    pub url: Option<SecretString>,
    /// A file with that URL.
    pub url_file: Option<PathBuf>,
    /// With topology `sentinel`, the sentinels; with `cluster`, some of its nodes.
    #[serde(default)]
    pub urls: Vec<SecretString>,
    /// A file with those URLs, one a line.
    pub urls_file: Option<PathBuf>,
    /// The user of the servers that hold the data, rather than the one in the URL.
    pub username: Option<String>,
    /// The user's password, taken literally: it is not percent-encoded.
    pub password: Option<SecretString>,
    /// A file with that password.
    pub password_file: Option<PathBuf>,
    /// A PEM file with the certificate authorities to trust instead of the system's.
    pub tls_ca_file: Option<PathBuf>,
    /// The connection to the sentinels.
    pub sentinel: SentinelConfig,
    /// The prefix of every Redis key.
    pub prefix: String,
    /// Memory of a server that reports no `maxmemory`, in bytes, 1 or more.
    pub max_bytes: u64,
    /// Timeout of every command, in milliseconds, 1 to 86400000.
    pub timeout_ms: u64,
    /// Maximum number of connections for reads and leases, 1 to 10000; in a cluster, to each primary.
    /// They hardly use more than 4.
    pub pool_size: u32,
}

/// How the Redis servers are organised.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Topology {
    /// One server, or one name that always resolves to the primary.
    Single,
    /// A primary that is discovered through sentinels.
    Sentinel,
    /// Redis Cluster.
    Cluster,
}

impl fmt::Display for Topology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// `[redis.sentinel]`: the service name and the credentials for the sentinels.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SentinelConfig {
    /// The sentinels' name of the primary.
    pub service: Option<String>,
    /// The sentinels' own user, rather than the one in their URLs.
    pub username: Option<String>,
    /// Its password.
    pub password: Option<SecretString>,
    /// A file with that password.
    pub password_file: Option<PathBuf>,
}

impl RedisConfig {
    /// Whether Redis is configured.
    pub fn is_used(&self) -> bool {
        self.url.is_some() || self.topology != Topology::Single
    }

    /// Checks for keys that contradict each other. URLs are checked where they are parsed, in
    /// `redis/`.
    pub(super) fn check(&self, checks: &mut Checks) {
        let (topology, single) = (self.topology, self.topology == Topology::Single);
        let (sentinel, is_sentinel) = (&self.sentinel, topology == Topology::Sentinel);
        checks.require(!self.prefix.is_empty(), &["redis.prefix"], "must not be empty");
        let other =
            |takes| format!("is not for redis.topology = \"{topology}\", which takes {takes}");
        checks.require(!single || self.urls.is_empty(), &["redis.urls"], &other("redis.url"));
        checks.require(single || self.url.is_none(), &["redis.url"], &other("redis.urls"));
        let problem =
            format!("must be set too: redis.topology = \"{topology}\" needs at least one URL");
        checks.require(single || !self.urls.is_empty(), &["redis.urls"], &problem);
        checks.require(
            !is_sentinel || sentinel.service.as_deref().is_some_and(|name| !name.is_empty()),
            &["redis.sentinel.service"],
            "must be set too: the name under which the sentinels know the primary, often mymaster",
        );
        for (key, set) in [
            ("redis.sentinel.service", sentinel.service.is_some()),
            ("redis.sentinel.username", sentinel.username.is_some()),
            ("redis.sentinel.password", sentinel.password.is_some()),
        ] {
            let problem = "is only for redis.topology = \"sentinel\"";
            checks.require(!set || is_sentinel, &[key], problem);
        }
        for (key, username, password, needs) in [
            ("redis.password", &self.username, &self.password, "redis.username"),
            (
                "redis.sentinel.password",
                &sentinel.username,
                &sentinel.password,
                "redis.sentinel.username",
            ),
        ] {
            let problem = format!("must be set too: {needs} needs one");
            checks.require(username.is_none() || password.is_some(), &[key], &problem);
        }
        checks.require(
            topology != Topology::Cluster || !self.prefix.contains(['{', '}']),
            &["redis.prefix"],
            "must not contain { or }, which would put all keys on one node of a cluster",
        );
    }
}

/// How limits are enforced while Redis is unavailable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WithoutRedis {
    /// Each replica enforces `ceil(limit / replicas)` in its own memory.
    Local,
    /// Every request is rejected with 503.
    Refuse,
}

/// How the limits of API keys, in requests a minute, are enforced.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RateLimitConfig {
    /// Number of running replicas, 1 or more.
    pub replicas: u32,
    /// What to do while Redis is unavailable.
    pub without_redis: WithoutRedis,
    /// Whether requests over the limit are rejected.
    pub enforce: bool,
}
