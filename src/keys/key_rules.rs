//! The limits of a key's properties. The server refuses other values, and the command line checks
//! the same limits before it sends a request.

use crate::registry::Timestamp;

/// Scopes that one key may have.
pub(crate) const MAX_SCOPES: usize = 16;

/// How long a rotated key may stay valid, in seconds: 365 days.
pub(crate) const MAX_OVERLAP_S: u32 = 365 * 86_400;

/// Keys expire before this time, at the end of the year 9999. Later times can't be stored and shown
/// everywhere.
pub(crate) const EXPIRES_BEFORE: Timestamp = Timestamp::constant(253_402_128_000, 0);
