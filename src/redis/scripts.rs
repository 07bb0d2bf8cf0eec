//! All Lua scripts that run in Redis.

use std::sync::OnceLock;

use redis::{Arg, Cmd, ErrorKind, RedisError, Script, ServerErrorKind, cmd};

/// Admits requests into an API key's window and returns the window's state.
///
/// KEYS[1]: the window's counter.
/// ARGV[1]: the limit. ARGV[2]: how many requests to admit. ARGV[3]: the window's length, ms.
/// Returns: admitted (0 to ARGV[2]), count, ms until the window ends.
///
/// It never counts above the limit, so a raised limit takes effect at once. A counter that is not
/// a number starts at 0, and one whose time to live is missing or longer than a window gets a new
/// one, so no key stays locked out. It writes even if it admits nothing, so that a server that is
/// full or read-only refuses the command for every key, not only for those below their limit.
pub static ADMIT: LuaScript = LuaScript::new(
    "admit",
    r"
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
local resets_in = redis.call('PTTL', KEYS[1])
if resets_in < 0 or resets_in > window then
  redis.call('PEXPIRE', KEYS[1], window)
  resets_in = window
end
return {admitted, count + admitted, resets_in}
",
);

/// Stores a cache entry, unless the stored one shows a later state, and releases the lease. Nobody sees
/// the one without the other.
///
/// KEYS[1]: the entry. KEYS[2]: its lease. ARGV[1]: its bytes, as `cache/codec.rs` writes them. ARGV[2]: the number of
/// transactions that its read saw, as 16 hexadecimal digits. ARGV[3]: its time to live if it replaces
/// one, ms. ARGV[4]: the first byte of every entry of this format. ARGV[5]: its time to live if there
/// is none yet, ms; 0 if it is not stored then. ARGV[6]: the token of the lease's owner; empty if no
/// lease is released.
/// Returns: 1 if it was stored, else 0.
pub static PUT_IF_NEWER: LuaScript = LuaScript::new(
    "put_if_newer",
    r"
if redis.pcall('GET', KEYS[2]) == ARGV[6] then
  redis.call('DEL', KEYS[2])
end
local head = redis.pcall('GETRANGE', KEYS[1], 0, 20)
if type(head) == 'string' and #head == 21 and string.sub(head, 1, 1) == ARGV[4] then
  local transactions = string.sub(head, 6)
  if string.match(transactions, '^%x+$') and transactions > ARGV[2] then
    return 0
  end
end
local ttl = ARGV[3]
if head == '' then
  ttl = ARGV[5]
end
if ttl == '0' then
  return 0
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ttl)
return 1
",
);

/// Deletes the cache entry of something that does not exist any more, unless it shows a later state.
///
/// KEYS[1]: the entry. ARGV[1]: the number of transactions that the read saw which found no gene or
/// domain, as 16 hexadecimal digits.
/// Returns: how many entries were deleted.
pub static DELETE_IF_OLDER: LuaScript = LuaScript::new(
    "delete_if_older",
    r"
local head = redis.pcall('GETRANGE', KEYS[1], 0, 20)
if type(head) == 'string' and #head == 21 and string.sub(head, 6) > ARGV[1] then
  return 0
end
return redis.call('DEL', KEYS[1])
",
);

/// Deletes a cache entry that could not be decoded, unless it has been replaced, or releases a
/// lease, unless another replica has it.
///
/// KEYS[1]: the entry or lease. ARGV[1]: the bytes that could not be decoded, or the owner's token.
/// Returns: how many keys were deleted.
pub static DELETE_IF_EQUAL: LuaScript = LuaScript::new(
    "delete_if_equal",
    r"
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0
",
);

/// Acquires a lease, unless another replica has it.
///
/// KEYS[1]: the lease. ARGV[1]: a random token. ARGV[2]: its time to live, ms.
/// Returns: the token of the current owner, and ms until its lease expires.
pub static ACQUIRE_LEASE: LuaScript = LuaScript::new(
    "acquire_lease",
    r"
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
  return {ARGV[1], tonumber(ARGV[2])}
end
return {redis.call('GET', KEYS[1]), redis.call('PTTL', KEYS[1])}
",
);

/// All scripts.
static ALL: [&LuaScript; 5] =
    [&ADMIT, &PUT_IF_NEWER, &DELETE_IF_OLDER, &DELETE_IF_EQUAL, &ACQUIRE_LEASE];

/// The name of the script with this hash or source.
pub(super) fn script_name(hash_or_source: &[u8]) -> Option<&'static str> {
    let is_meant = |script: &&&LuaScript| {
        [script.hash(), script.source].map(str::as_bytes).contains(&hash_or_source)
    };
    ALL.iter().find(is_meant).map(|script| script.name)
}

/// A script with its hash, computed at its first use.
#[derive(Debug)]
pub struct LuaScript {
    /// As the log calls it.
    name: &'static str,
    source: &'static str,
    hash: OnceLock<String>,
}

impl LuaScript {
    const fn new(name: &'static str, source: &'static str) -> Self {
        Self { name, source, hash: OnceLock::new() }
    }

    fn hash(&self) -> &str {
        self.hash.get_or_init(|| Script::new(self.source).get_hash().to_owned())
    }

    /// The command that runs it by its hash on these keys, without arguments yet.
    pub(super) fn by_hash(&self, keys: &[&str]) -> Cmd {
        let mut command = cmd("EVALSHA");
        command.arg(self.hash()).arg(keys.len()).arg(keys);
        command
    }

    /// The command that runs it by its source, after which the server knows the hash. Without
    /// arguments yet.
    pub(super) fn by_source(&self, keys: &[&str]) -> Cmd {
        self.with_source(&self.by_hash(keys))
    }

    /// `by_hash` with the script's source instead of its hash.
    pub(super) fn with_source(&self, by_hash: &Cmd) -> Cmd {
        let mut command = cmd("EVAL");
        command.arg(self.source);
        for argument in by_hash.args_iter().skip(2) {
            if let Arg::Simple(argument) = argument {
                command.arg(argument);
            }
        }
        command
    }

    /// Whether the server did not run the command because it does not know the script's hash.
    pub(super) fn is_unknown(error: &RedisError) -> bool {
        error.kind() == ErrorKind::Server(ServerErrorKind::NoScript)
    }
}
