//! Redis: its version, eviction policy and room, and the rights of the user.

use std::time::Duration;

use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::{Cmd, ErrorKind, Pipeline, RedisError, RedisResult, ServerErrorKind, Value, cmd};

use super::clocks;
use super::finding::Finding;
use crate::cache::MAX_FOR_NEW;
use crate::config::RedisConfig;
use crate::ops::error_chain;
use crate::redis::{RedisKeys, ServerMemory, Servers};
use crate::registry::Timestamp;

pub(super) const CHECK: &str = "redis";

/// The oldest version that is supported.
const MIN_VERSION: (u32, u32) = (6, 2);

/// A first connection over a slow network may take longer than the service waits.
const MIN_TIMEOUT_MS: u64 = 2_000;

/// Time to live of the key that the check writes, in milliseconds.
const KEY_TTL_MS: u64 = 10_000;

/// `is_complete`: whether servers that cannot be reached are reported, too. A replica logs these anyway.
pub(super) async fn check(config: &RedisConfig, is_complete: bool) -> Vec<Finding> {
    // The configuration was checked before.
    let Ok(Some(servers)) = Servers::read(config) else { return Vec::new() };
    let mut findings = Vec::new();
    if servers.is_exposed() {
        let message = "the connection to another machine is not encrypted".to_owned();
        let remedy = "Use rediss:// URLs, or a network that only the replicas and Redis share.";
        findings.push(Finding::warning(CHECK, message, remedy));
    }
    let timeout = Duration::from_millis(config.timeout_ms.max(MIN_TIMEOUT_MS));
    for (name, connection) in servers.connect_each(timeout).await {
        let checked = match connection {
            Ok(connection) => check_server(&name, connection, config).await,
            Err(_) if !is_complete => continue,
            Err(error) => Err(error),
        };
        match checked {
            Ok(found) => findings.extend(found),
            Err(error) => {
                let message = format!("{name}: {}", error_chain(&error));
                findings.push(Finding::serious(CHECK, message, connect_remedy(&error)));
            }
        }
    }
    findings
}

fn connect_remedy(error: &RedisError) -> &'static str {
    match error.kind() {
        ErrorKind::AuthenticationFailed => "Correct redis.username and redis.password.",
        ErrorKind::InvalidClientConfig => {
            "Set redis.tls_ca_file to the PEM file of the authority that issued the certificate."
        }
        ErrorKind::MasterNameNotFoundBySentinel => "Correct redis.sentinel.service.",
        _ if matches!(error.code(), Some("NOAUTH" | "WRONGPASS")) => {
            "Correct redis.username and redis.password."
        }
        _ if error.code() == Some("NOPERM") => {
            "Grant the user the right that the error names; +select for a database other than 0."
        }
        _ => {
            "Start the server, or correct its address. Until then, replicas cache and count alone."
        }
    }
}

async fn check_server(
    name: &str,
    mut connection: MultiplexedConnection,
    config: &RedisConfig,
) -> RedisResult<Vec<Finding>> {
    let before = Timestamp::now();
    let info: RedisResult<String> = cmd("INFO").query_async(&mut connection).await;
    let mut findings = Vec::new();
    match info {
        Ok(info) => findings.extend(read_info(name, &info, config, before)),
        Err(error) if is_denied(&error) => {
            let message =
                format!("{name}: the user may not run INFO, which tells how full Redis is");
            let remedy = "Grant it: ACL SETUSER … +info.";
            findings.push(Finding::warning(CHECK, message, remedy));
        }
        Err(error) => return Err(error),
    }
    findings.extend(check_rights(name, &mut connection, config).await?);
    Ok(findings)
}

fn read_info(name: &str, info: &str, config: &RedisConfig, before: Timestamp) -> Vec<Finding> {
    let field = |field: &str| {
        info.lines().find_map(|line| Some(line.strip_prefix(field)?.strip_prefix(':')?.trim()))
    };
    let mut findings = Vec::new();
    let version = field("redis_version").unwrap_or_default();
    let mut numbers = version.split('.').map(|number| number.parse().unwrap_or(0));
    let numbers = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    if numbers < MIN_VERSION {
        let message = format!("{name}: Redis {version} is not supported");
        findings.push(Finding::serious(CHECK, message, "Upgrade to Redis 6.2 or later."));
    }
    match field("maxmemory_policy") {
        None | Some("noeviction") => {}
        Some(policy) => {
            let message = format!(
                "{name}: maxmemory-policy is {policy}, which may evict counters of rate limits"
            );
            let remedy = "Set maxmemory-policy noeviction: every key expires by itself.";
            findings.push(Finding::warning(CHECK, message, remedy));
        }
    }
    if let Some(ServerMemory { used, max }) = ServerMemory::parse(info) {
        let max = if max == 0 { config.max_bytes } else { max };
        let ratio = used as f64 / max as f64;
        if ratio > MAX_FOR_NEW {
            let message = format!(
                "{name}: {:.0} % of its memory is in use: above 70 % no new responses are cached in \
                 it, above 85 % none at all",
                100.0 * ratio
            );
            let remedy = "Raise maxmemory (or redis.max_bytes, where that is 0), or remove data of \
                          other programs.";
            findings.push(Finding::warning(CHECK, message, remedy));
        }
    }
    let micros = field("server_time_usec").and_then(|micros| micros.parse().ok());
    findings.extend(micros.and_then(|micros| clocks::compare(name, before, micros)));
    findings
}

/// Runs each command that the service uses, on a key of its own that expires.
async fn check_rights(
    name: &str,
    connection: &mut MultiplexedConnection,
    config: &RedisConfig,
) -> RedisResult<Vec<Finding>> {
    let keys = RedisKeys::new(&config.prefix);
    let key = keys.probe(getrandom::u32().unwrap_or(u32::MAX));
    let commands = commands(&key);
    let mut pipeline = Pipeline::with_capacity(commands.len());
    for (_, command) in &commands {
        pipeline.add_command(command.clone());
    }
    let replies = connection.req_packed_commands(&pipeline, 0, commands.len()).await?;
    let replies = replies.into_iter().map(Value::extract_error);
    let (mut denied, mut refusal) = (Vec::new(), None);
    for ((right, _), reply) in commands.iter().zip(replies) {
        match reply {
            Err(error) if is_denied(&error) => denied.push(format!("+{right}")),
            Err(error) if !concerns_command(&error) => refusal = refusal.or(Some(error)),
            _ => {}
        }
    }
    let mut findings = Vec::new();
    if !denied.is_empty() {
        let message = format!("{name}: the user lacks rights that the service needs");
        let remedy =
            format!("Grant them: ACL SETUSER … ~{}:* {}.", config.prefix, denied.join(" "));
        findings.push(Finding::serious(CHECK, message, remedy));
    }
    findings.extend(refusal.map(|error| {
        let message = format!("{name}: it refuses commands: {error}");
        let remedy = "Connect to the primary, with free memory and working persistence.";
        Finding::serious(CHECK, message, remedy)
    }));
    Ok(findings)
}

/// The commands with the words that grant them. The last one deletes the key.
fn commands(key: &str) -> Vec<(&'static str, Cmd)> {
    let on_key = |name: &str, arguments: &[&str]| {
        let mut command = cmd(name);
        command.arg(key).arg(arguments);
        command
    };
    let script = |name: &str, script: &str| {
        let mut command = cmd(name);
        command.arg(script).arg(1).arg(key);
        command
    };
    let ttl = KEY_TTL_MS.to_string();
    vec![
        ("ping", cmd("PING")),
        ("set", on_key("SET", &["1", "PX", &ttl])),
        ("get", on_key("GET", &[])),
        ("getrange", on_key("GETRANGE", &["0", "0"])),
        ("mget", on_key("MGET", &[])),
        ("incrby", on_key("INCRBY", &["1"])),
        ("pttl", on_key("PTTL", &[])),
        ("pexpire", on_key("PEXPIRE", &[&ttl])),
        ("eval", script("EVAL", "return 1")),
        ("evalsha", script("EVALSHA", "0000000000000000000000000000000000000000")),
        ("del", on_key("DEL", &[])),
    ]
}

fn is_denied(error: &RedisError) -> bool {
    error.kind() == ErrorKind::Server(ServerErrorKind::NoPerm)
}

/// Whether the error says nothing about other commands: the script is unknown, or another node of a
/// cluster has the key.
fn concerns_command(error: &RedisError) -> bool {
    matches!(error.code(), Some("NOSCRIPT" | "MOVED" | "ASK" | "TRYAGAIN" | "CROSSSLOT"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::LoadedConfig;

    fn messages(info: &str) -> Vec<String> {
        let config = LoadedConfig::read(None).expect("the defaults").config.redis;
        let findings = read_info("r:1", info, &config, Timestamp::now());
        findings.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn versions_before_6_2_are_serious() {
        for good in ["6.2.0", "6.2.14", "7.0.15", "10.0.1"] {
            let info = format!("redis_version:{good}\r\nmaxmemory_policy:noeviction\r\n");
            assert_eq!(messages(&info), [""; 0], "{good}");
        }
        for old in ["6.0.16", "5.9.9", ""] {
            let found = messages(&format!("redis_version:{old}\r\n"));
            let expected = format!("serious: redis: r:1: Redis {old} is not supported. Upgrade");
            assert!(found.len() == 1 && found[0].starts_with(&expected), "{found:?}");
        }
    }

    #[test]
    fn the_clock_of_redis_is_compared() {
        let info = "redis_version:7.0.0\r\nserver_time_usec:1000000\r\n";
        let found = messages(info);
        assert!(found.len() == 1 && found[0].starts_with("warning: clocks: the clock of r:1 is"));
    }
}
