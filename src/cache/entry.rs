//! A finished answer: nothing is serialised when it is served.

use bytes::Bytes;

use super::answer::Answer;
use crate::registry::Timestamp;

/// A finished answer and when it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The JSON.
    pub body: Bytes,
    /// The value of the `Link` header, empty where there is none.
    pub link: Box<str>,
    /// The upstream's time of the read.
    pub read_at: Timestamp,
}

impl Entry {
    /// The entry for what an upstream read found.
    pub fn new(answer: Answer, read_at: Timestamp) -> Self {
        Self { body: answer.body, link: answer.link, read_at }
    }

    /// The memory it takes in a cache, in bytes, with the book-keeping around it.
    pub fn weight(&self) -> u32 {
        const BOOK_KEEPING: usize = 256;
        u32::try_from(BOOK_KEEPING + self.body.len() + self.link.len()).unwrap_or(u32::MAX)
    }
}
