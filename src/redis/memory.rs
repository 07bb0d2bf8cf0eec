//! How much memory the Redis servers use, by their replies to `INFO memory`.

use std::sync::Arc;

use redis::{FromRedisValue, RedisError, RedisResult, Value, cmd};

use super::failure::unexpected;
use super::pool::RedisPool;

/// The memory of one server, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServerMemory {
    /// What counts against `maxmemory`: data, overhead and the buffers of clients.
    pub used: u64,
    /// `maxmemory`; 0 if the server has no limit or does not report it.
    pub max: u64,
}

/// The name of a server, and its memory: an error if it does not tell, `None` if it does not reply.
pub type ServerReading = (Arc<str>, Option<RedisResult<ServerMemory>>);

impl ServerMemory {
    /// Parses the reply to `INFO memory`; `None` without the memory in use.
    pub(crate) fn parse(info: &str) -> Option<Self> {
        let field = |name: &str| {
            let value =
                |line: &str| line.strip_prefix(name)?.strip_prefix(':')?.trim().parse().ok();
            info.lines().find_map(value)
        };
        let (used, uncounted): (u64, u64) =
            (field("used_memory")?, field("mem_not_counted_for_evict").unwrap_or(0));
        let max = field("maxmemory").unwrap_or(0);
        Some(Self { used: used.saturating_sub(uncounted), max })
    }
}

impl RedisPool {
    /// The memory of all known servers.
    pub async fn memory(&self) -> Vec<ServerReading> {
        let info = cmd("INFO").arg("memory").to_owned();
        let replies = self.ask_servers(info).await.into_iter();
        let parse = |reply: RedisResult<Value>| {
            let text = String::from_redis_value(reply?)?;
            ServerMemory::parse(&text).ok_or_else(|| unexpected("INFO without used_memory"))
        };
        let is_final = |reading: &RedisResult<_>| reading.as_ref().err().is_none_or(is_refusal);
        replies.map(|(name, reply)| (name, reply.map(parse).filter(is_final))).collect()
    }
}

/// Whether the user lacks the right, or the server the command. Other errors pass: it is loading, or
/// busy with a script.
fn is_refusal(error: &RedisError) -> bool {
    matches!(error.code(), None | Some("ERR" | "NOPERM"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fields_are_found_among_those_with_longer_names() {
        let info = "# Memory\r\nused_memory_human:1.00M\r\nused_memory:1048576\r\n\
                    maxmemory_human:2.00M\r\nmaxmemory:2097152\r\n\
                    mem_not_counted_for_evict:576\r\n";
        let expected = ServerMemory { used: 1_048_000, max: 2_097_152 };
        assert_eq!(ServerMemory::parse(info), Some(expected));
    }

    #[test]
    fn what_a_server_does_not_report_is_no_limit() {
        let used = |info| ServerMemory::parse(info).map(|memory| (memory.used, memory.max));
        assert_eq!(used("used_memory:7\r\n"), Some((7, 0)));
        assert_eq!(used("used_memory:7\r\nmaxmemory:?\r\n"), Some((7, 0)));
        assert_eq!(used("used_memory:-7\r\nmaxmemory:9\r\n"), None);
        assert_eq!(used(""), None);
    }
}
