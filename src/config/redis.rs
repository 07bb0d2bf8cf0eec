//! `[redis]` and `[rate_limit]`: what replicas share.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};

/// The shared cache and the counters.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RedisConfig {
    /// How its servers belong together.
    pub topology: Topology,
    /// With topology `single`, the server: `redis://…`, `rediss://…` or `redis+unix://…`;
    /// `REDIS_URL` sets it too.
    pub url: Option<SecretString>,
    /// With topology `sentinel`, the sentinels; with `cluster`, some of its nodes.
    #[serde(default)]
    pub urls: Vec<SecretString>,
    /// The user of the servers that hold the data, rather than the one in the URL.
    pub username: Option<String>,
    /// Its password, as it is: nothing in it is escaped.
    pub password: Option<SecretString>,
    /// A PEM file: the authorities that `rediss://` trusts instead of the system's.
    pub tls_ca_file: Option<PathBuf>,
    /// The sentinels.
    pub sentinel: SentinelConfig,
    /// Begins every key.
    pub prefix: String,
    /// For any answer, in milliseconds.
    pub timeout_ms: u64,
    /// Connections at most; in a cluster, to each of its primaries.
    pub pool_size: u32,
}

/// How the servers belong together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Topology {
    /// One server, or one name that always leads to the primary.
    Single,
    /// A primary that sentinels name.
    Sentinel,
    /// Redis Cluster.
    Cluster,
}

impl fmt::Display for Topology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Single => "single",
            Self::Sentinel => "sentinel",
            Self::Cluster => "cluster",
        })
    }
}

/// `[redis.sentinel]`: what the sentinels are asked, and as whom.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SentinelConfig {
    /// The name under which they know the primary.
    pub service: Option<String>,
    /// The sentinels' own user, rather than the one in their URLs.
    pub username: Option<String>,
    /// Its password.
    pub password: Option<SecretString>,
}

impl RedisConfig {
    /// For any answer.
    pub const fn timeout(&self) -> Duration {
        Duration::from_millis(self.timeout_ms)
    }

    /// Whether there is a Redis at all.
    pub fn is_used(&self) -> bool {
        self.has_url() || self.topology != Topology::Single
    }

    /// Which of these keys contradict each other, and what is allowed. What is in a URL is
    /// checked where it is parsed, in `redis/`.
    pub(super) fn contradictions(&self) -> Vec<(&'static str, String)> {
        let (topology, single) = (self.topology, self.topology == Topology::Single);
        let sentinel = &self.sentinel;
        let other = |key, rather| {
            (key, format!("is not for redis.topology = \"{topology}\", which takes {rather}"))
        };
        let with = |key, what: &str| (key, format!("must be set too: {what}"));
        let mut found = Vec::new();
        if single && !self.urls.is_empty() {
            found.push(other("redis.urls", "redis.url"));
        }
        if !single && self.has_url() {
            found.push(other("redis.url", "redis.urls"));
        }
        if !single && self.urls.is_empty() {
            let what = format!("redis.topology = \"{topology}\" needs one URL or more to ask");
            found.push(with("redis.urls", &what));
        }
        if topology == Topology::Sentinel && sentinel.service.as_deref().is_none_or(str::is_empty) {
            let what = "the name under which the sentinels know the primary, often mymaster";
            found.push(with("redis.sentinel.service", what));
        }
        for (key, set) in [
            ("redis.sentinel.service", sentinel.service.is_some()),
            ("redis.sentinel.username", sentinel.username.is_some()),
            ("redis.sentinel.password", is_set(&sentinel.password)),
        ] {
            if set && topology != Topology::Sentinel {
                found.push((key, "is only for redis.topology = \"sentinel\"".to_owned()));
            }
        }
        if self.username.is_some() && !is_set(&self.password) {
            found.push(with("redis.password", "redis.username needs one"));
        }
        if sentinel.username.is_some() && !is_set(&sentinel.password) {
            found.push(with("redis.sentinel.password", "redis.sentinel.username needs one"));
        }
        if topology == Topology::Cluster && self.prefix.contains(['{', '}']) {
            let what = "must not contain { or }, which would put all keys on one node of a cluster";
            found.push(("redis.prefix", what.to_owned()));
        }
        found
    }

    fn has_url(&self) -> bool {
        is_set(&self.url)
    }
}

/// What is set to nothing is not set: that is how compose files unset things.
fn is_set(secret: &Option<SecretString>) -> bool {
    secret.as_ref().is_some_and(|secret| !secret.expose_secret().is_empty())
}

/// What to do with requests while Redis is unavailable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WithoutRedis {
    /// Each replica enforces ceil(limit / replicas) by itself.
    Local,
    /// Every request is refused with 503.
    Refuse,
}

/// Requests a minute for each key.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RateLimitConfig {
    /// Replicas that run.
    pub replicas: u32,
    /// What to do while Redis is away.
    pub without_redis: WithoutRedis,
    /// Whether requests over the limit are refused.
    pub enforce: bool,
}
