//! Every script that runs in Redis.

use redis::{Cmd, ErrorKind, RedisError, Script, ServerErrorKind, cmd};

/// Admits requests into an API key's window and tells how the window stands.
///
/// KEYS[1]: the window's counter.
/// ARGV[1]: the limit. ARGV[2]: how many requests ask. ARGV[3]: the window's length, ms.
/// Returns: admitted (at most what ARGV[2] asked), count, ms left in the window.
///
/// It never counts above the limit, so a raised limit helps at once. A counter that is no
/// number begins again; one without an expiry, or with one beyond a window, gets a new one:
/// nobody stays locked out. It writes also where it admits nothing: a server that is full or
/// read-only says so for every key, and not only for those below their limit.
const ADMIT: &str = r"
local stored = redis.pcall('GET', KEYS[1])
local count = 0
if type(stored) == 'string' and #stored <= 10
    and (stored == '0' or string.match(stored, '^[1-9]%d*$')) then
  count = tonumber(stored)
elseif stored then
  redis.call('DEL', KEYS[1])
end
local window = tonumber(ARGV[3])
local admitted = math.max(0, math.min(tonumber(ARGV[2]), tonumber(ARGV[1]) - count))
redis.call('INCRBY', KEYS[1], admitted)
local left = redis.call('PTTL', KEYS[1])
if left < 0 or left > window then
  redis.call('PEXPIRE', KEYS[1], window)
  left = window
end
return {admitted, count + admitted, left}
";

/// A script with its hash, computed once.
#[derive(Debug)]
pub struct Prepared {
    source: &'static str,
    hash: String,
}

impl Prepared {
    /// The script behind the limits.
    pub fn admit() -> Self {
        Self { source: ADMIT, hash: Script::new(ADMIT).get_hash().to_owned() }
    }

    /// The call by hash, for one key. Arguments follow.
    pub fn by_hash(&self, key: &str) -> Cmd {
        let mut command = cmd("EVALSHA");
        command.arg(&self.hash).arg(1).arg(key);
        command
    }

    /// The call by source, which also teaches the server the hash. Arguments follow.
    pub fn by_source(&self, key: &str) -> Cmd {
        let mut command = cmd("EVAL");
        command.arg(self.source).arg(1).arg(key);
        command
    }

    /// Whether the server has not run the command because it does not know the script.
    pub fn is_unknown(error: &RedisError) -> bool {
        error.kind() == ErrorKind::Server(ServerErrorKind::NoScript)
    }
}
