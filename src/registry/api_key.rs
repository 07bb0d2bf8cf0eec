//! The record of an API key. Keys are identified by their SHA-256, never by their plain text.

use std::hash::{Hash, Hasher};

use data_encoding::HEXLOWER;

use super::time::Timestamp;

/// SHA-256 of a whole API key. The key itself is never stored.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct KeyHash(pub [u8; 32]);

impl std::fmt::Debug for KeyHash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("KeyHash(…)")
    }
}

impl Hash for KeyHash {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.id().hash(state);
    }
}

impl KeyHash {
    /// The identifier of the key in counters, logs and usage records.
    pub fn id(&self) -> KeyId {
        let mut id = [0; 16];
        id.copy_from_slice(&self.0[..16]);
        KeyId(id)
    }
}

/// The first 16 bytes of a [`KeyHash`]. Unlike the prefix of a key, it cannot be chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyId([u8; 16]);

/// Hashes 8 bytes only: these are as evenly distributed as the whole SHA-256.
impl Hash for KeyId {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let [a, b, c, d, e, f, g, h, ..] = self.0;
        state.write_u64(u64::from_ne_bytes([a, b, c, d, e, f, g, h]));
    }
}

impl std::fmt::Display for KeyId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        HEXLOWER.encode_display(&self.0).fmt(f)
    }
}

/// The record of an API key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiKeyRecord {
    /// Its stored hash.
    pub hash: KeyHash,
    /// The beginning of the key, for display.
    pub prefix: String,
    /// The user it belongs to.
    pub owner: String,
    /// The name that its owner gave it.
    pub name: String,
    /// The permitted scopes.
    pub scopes: Vec<String>,
    /// Requests a minute, 0 to 2147483647.
    pub rate_limit_per_minute: u32,
    /// When it expires; at this time it is no longer valid. `None` for never.
    pub expires_at: Option<Timestamp>,
    /// When it was revoked; `None` if it was not.
    pub revoked_at: Option<Timestamp>,
}

impl ApiKeyRecord {
    /// The limit, in requests a minute, of keys without one.
    pub const DEFAULT_RATE_LIMIT: u32 = 30;
}
