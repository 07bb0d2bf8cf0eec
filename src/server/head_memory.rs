//! Bounds the memory that the heads of one connection's requests take while they are in progress. A
//! client may send many at once on HTTP/2, and each may be as large as a head can be.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use hyper::Request;

/// Bytes of the heads of all requests in progress on one connection. A single one may have more.
const MAX_BYTES: usize = 64 * 1024;

/// What a header field takes besides its name and value, in bytes (RFC 9113, section 6.5.2).
const FIELD_OVERHEAD: usize = 32;

/// The memory of the heads in progress on one connection.
#[derive(Debug, Default)]
pub(super) struct HeadMemory(Arc<AtomicUsize>);

impl HeadMemory {
    /// Counts the head of a request until the result is dropped. `None` if there is no room for it
    /// beside the heads in progress.
    pub(super) fn reserve<B>(&self, request: &Request<B>) -> Option<HeadReservation> {
        let fields = request.headers().iter();
        let fields = fields.map(|(name, value)| name.as_str().len() + value.len() + FIELD_OVERHEAD);
        let target = request.uri().path_and_query().map_or(0, |target| target.as_str().len());
        let bytes = fields.sum::<usize>() + target;
        let before = self.0.fetch_add(bytes, Ordering::AcqRel);
        let reservation = HeadReservation { memory: Arc::clone(&self.0), bytes };
        (before == 0 || before + bytes <= MAX_BYTES).then_some(reservation)
    }
}

/// The memory of the head of one request in progress.
#[derive(Debug)]
pub(super) struct HeadReservation {
    memory: Arc<AtomicUsize>,
    bytes: usize,
}

impl Drop for HeadReservation {
    fn drop(&mut self) {
        self.memory.fetch_sub(self.bytes, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(padding: usize) -> Request<()> {
        Request::builder().header("x-padding", "x".repeat(padding)).body(()).expect("a request")
    }

    #[test]
    fn heads_in_progress_have_64_kib_and_one_alone_may_have_more() {
        let memory = HeadMemory::default();
        let large = memory.reserve(&request(70_000)).expect("the only one");
        assert!(memory.reserve(&request(1)).is_none(), "the refused one is not counted");
        drop(large);
        let small: Vec<_> = (0..64).map_while(|_| memory.reserve(&request(2_000))).collect();
        assert_eq!(small.len(), 32);
        drop(small);
        assert!(memory.reserve(&request(70_000)).is_some());
    }
}
