//! Finished answers, near and shared, in front of the upstream. [`ReadThrough`] is the way in.

mod admission;
mod answer;
mod codec;
mod entry;
mod freshness;
mod key;
mod load;
mod local;
mod read;
mod read_through;
mod shared;
mod total;

pub use answer::Answer;
pub use entry::{Coded, EntityTag, Entry};
pub use read_through::{Held, ReadError, ReadThrough, Served, Source};
pub use shared::SharedCache;
