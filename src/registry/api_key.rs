//! What the registry knows of an API key, and how keys are identified: by their SHA-256, never by
//! their plain text.

use std::hash::{Hash, Hasher};

use data_encoding::HEXLOWER;

use super::Timestamp;

/// SHA-256 of a whole API key. All that is stored of it.
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
    /// What the key is known by everywhere inside: counter, log scope, usage.
    pub fn id(&self) -> KeyId {
        let mut id = [0; 16];
        id.copy_from_slice(&self.0[..16]);
        KeyId(id)
    }
}

/// The first 16 bytes of a [`KeyHash`]. Unlike a key's prefix, nobody can choose it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyId([u8; 16]);

/// In maps: the first bytes of a SHA-256 are as evenly spread as all of them.
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

/// What the registry knows of an API key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiKeyRecord {
    /// Its stored hash.
    pub hash: KeyHash,
    /// The beginning that people know it by.
    pub prefix: String,
    /// Whose it is.
    pub owner: String,
    /// What its owner calls it.
    pub name: String,
    /// What it may do.
    pub scopes: Vec<String>,
    /// Requests a minute, 0 to 2147483647.
    pub rate_limit_per_minute: u32,
    /// When it ends (exclusive: at this moment it has ended); `None` for never.
    pub expires_at: Option<Timestamp>,
    /// When it was revoked.
    pub revoked_at: Option<Timestamp>,
}

impl ApiKeyRecord {
    /// Requests a minute where the upstream leaves the limit empty.
    pub const DEFAULT_RATE_LIMIT: u32 = 30;
}
