//! The read-through cache: a local and a shared cache of finished responses in front of the
//! upstream. [`ReadThrough`] is the entry point and serves hits; `load` is the path of a miss, which
//! queries the upstream for the whole fleet under a lease, and `read` is one such query.

mod broken_rows;
mod codec;
mod entry;
mod key;
mod lease;
mod load;
mod local;
mod read;
mod read_limiter;
mod read_through;
mod reply;
mod room;
mod serve_policy;
mod shared;

#[cfg(feature = "fuzzing")]
pub(crate) use codec::{FORMAT, decode, encode};
pub use entry::{Entry, ResponseBody};
pub use local::CacheStats;
pub use read_through::ReadThrough;
pub use reply::{CacheReply, ReadError, Source};
pub use room::{MAX_FOR_NEW, RedisRoom};
pub use shared::SharedCache;
