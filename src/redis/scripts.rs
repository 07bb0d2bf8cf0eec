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

/// Keeps an answer, unless one that was read later is there.
///
/// KEYS[1]: the answer. ARGV[1]: its bytes, as `cache/codec.rs` writes them. ARGV[2]: the time of
/// its read, as text that sorts as times do. ARGV[3]: for how long, ms. ARGV[4]: the first byte
/// of every answer of this format.
/// Returns: 1 if it is kept, else 0.
const PUT_IF_NEWER: &str = r"
local head = redis.pcall('GETRANGE', KEYS[1], 0, 20)
if type(head) == 'string' and #head == 21 and string.sub(head, 1, 1) == ARGV[4] then
  local read_at = string.sub(head, 6)
  if string.match(read_at, '^%x+$') and read_at > ARGV[2] then
    return 0
  end
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[3])
return 1
";

/// Takes away an answer about something that does not exist, unless it was read later.
///
/// KEYS[1]: the answer. ARGV[1]: the time of the read that found nothing.
/// Returns: how many answers were taken away.
const DELETE_IF_OLDER: &str = r"
local head = redis.pcall('GETRANGE', KEYS[1], 0, 20)
if type(head) == 'string' and #head == 21 and string.sub(head, 6) > ARGV[1] then
  return 0
end
return redis.call('DEL', KEYS[1])
";

/// Takes away what could not be decoded, if it is still there.
///
/// KEYS[1]: the answer. ARGV[1]: the bytes that could not be decoded.
/// Returns: how many were taken away.
const DELETE_IF_EQUAL: &str = r"
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0
";

/// Takes a lease, or tells who has it.
///
/// KEYS[1]: the lease. ARGV[1]: a random token. ARGV[2]: for how long, ms.
/// Returns: the token of whoever has the lease now.
const ACQUIRE_LEASE: &str = r"
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
  return ARGV[1]
end
return redis.call('GET', KEYS[1])
";

/// Gives a lease back; only its owner can.
///
/// KEYS[1]: the lease. ARGV[1]: the owner's token.
/// Returns: how many leases were given back.
const RELEASE_LEASE: &str = r"
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0
";

/// A script with its hash, computed once.
#[derive(Debug)]
pub struct LuaScript {
    source: &'static str,
    hash: String,
}

impl LuaScript {
    fn new(source: &'static str) -> Self {
        Self { source, hash: Script::new(source).get_hash().to_owned() }
    }

    /// The script behind the limits.
    pub fn admit() -> Self {
        Self::new(ADMIT)
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

/// The scripts of the shared cache.
#[derive(Debug)]
pub struct CacheScripts {
    /// Keeps an answer, unless one that was read later is there.
    pub put_if_newer: LuaScript,
    /// Takes away an answer about something that does not exist.
    pub delete_if_older: LuaScript,
    /// Takes away what could not be decoded.
    pub delete_if_equal: LuaScript,
    /// Takes a lease, or tells who has it.
    pub acquire_lease: LuaScript,
    /// Gives a lease back.
    pub release_lease: LuaScript,
}

impl Default for CacheScripts {
    fn default() -> Self {
        Self {
            put_if_newer: LuaScript::new(PUT_IF_NEWER),
            delete_if_older: LuaScript::new(DELETE_IF_OLDER),
            delete_if_equal: LuaScript::new(DELETE_IF_EQUAL),
            acquire_lease: LuaScript::new(ACQUIRE_LEASE),
            release_lease: LuaScript::new(RELEASE_LEASE),
        }
    }
}
