//! Finished answers, near and shared, in front of the upstream. [`ReadThrough`] is the way in.

mod codec;
mod entry;
mod freshness;
mod key;
mod load;
mod local;
mod read;
mod read_limiter;
mod read_through;
mod response_body;
mod shared;
mod total;

pub use entry::{Coded, EntityTag, Entry};
pub use read_through::{CacheReply, CacheStats, ReadError, ReadThrough, Source};
pub use response_body::ResponseBody;
pub use shared::SharedCache;
