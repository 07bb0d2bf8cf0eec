//! Writes the log without making anybody wait for its reader.
//!
//! Lines go to a bounded queue, which one thread drains ([`LogWriter::run`]). Warnings and errors
//! wake the thread at once; other lines are gathered for up to 50 ms, so that a busy service does
//! not make a system call for each request. Order is kept.
//!
//! When the reader stalls, only that thread waits. The queue fills up, and further lines are
//! dropped and counted. When the reader goes on, one line reports how many were dropped. A process
//! that is killed loses what is queued; one that ends calls [`LogWriter::flush`].

use std::io::{self, ErrorKind, Write};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tracing::{Level, Metadata};
use tracing_subscriber::fmt::MakeWriter;

/// How long a line waits for others at most.
const GATHER: Duration = Duration::from_millis(50);

/// With so many bytes queued, the thread does not wait for more.
const BATCH_BYTES: usize = 64 * 1024;

/// Bytes that are queued at most: some 1,300 lines about requests.
const QUEUE_BYTES: usize = 256 * 1024;

/// Of these, bytes that only warnings and errors get: the last to be lost, among them the report of
/// what was.
const URGENT_BYTES: usize = 32 * 1024;

/// The log of a process.
#[derive(Debug)]
pub(super) struct LogWriter {
    queue: Mutex<Queue>,
    /// There is something for the thread to do.
    wanted: Condvar,
    /// The thread has written what it had taken.
    written: Condvar,
}

#[derive(Debug)]
struct Queue {
    /// Whole lines.
    lines: Vec<u8>,
    /// The thread should not wait for more of them.
    is_urgent: bool,
    /// The thread has taken lines, and has not yet written all of them.
    is_writing: bool,
    /// Lines dropped since the process began.
    dropped: u64,
}

impl LogWriter {
    pub(super) const fn new() -> Self {
        let queue = Queue { lines: Vec::new(), is_urgent: false, is_writing: false, dropped: 0 };
        Self { queue: Mutex::new(queue), wanted: Condvar::new(), written: Condvar::new() }
    }

    /// Queues whole lines, which count as one; drops them where they find no room. Never waits for
    /// the reader. With `is_urgent` they are written at once, with everything before them.
    pub(super) fn add(&self, lines: &[u8], is_urgent: bool) {
        let mut queue = self.queue();
        let before = queue.lines.len();
        let after = before + lines.len();
        if after > if is_urgent { QUEUE_BYTES } else { QUEUE_BYTES - URGENT_BYTES } {
            queue.dropped += 1;
            return;
        }
        queue.lines.extend_from_slice(lines);
        let is_full_batch = before < BATCH_BYTES && after >= BATCH_BYTES;
        let is_wanted = before == 0 || is_full_batch || is_urgent && !queue.is_urgent;
        queue.is_urgent |= is_urgent;
        drop(queue);
        if is_wanted {
            self.wanted.notify_one();
        }
    }

    /// How many lines were dropped since the process began: the queue was full, or writing failed.
    pub(super) fn dropped(&self) -> u64 {
        self.queue().dropped
    }

    /// Waits until everything queued is written, but no longer than `timeout`.
    pub(super) fn flush(&self, timeout: Duration) {
        let mut queue = self.queue();
        queue.is_urgent |= !queue.lines.is_empty();
        self.wanted.notify_one();
        let is_left = |queue: &mut Queue| queue.is_writing || !queue.lines.is_empty();
        drop(self.written.wait_timeout_while(queue, timeout, is_left));
    }

    /// Writes what is queued to `out`, for ever; to be run by a thread of its own. `report` hears
    /// how many lines were dropped since it was last called, once `out` takes lines again.
    pub(super) fn run(&self, mut out: impl Write, report: impl Fn(u64)) -> ! {
        let mut batch = Vec::with_capacity(BATCH_BYTES);
        let (mut reported, mut is_torn, mut is_well) = (0, false, true);
        loop {
            let dropped = self.take(&mut batch);
            // What was dropped came after the batch, and the queue is empty: so does the report.
            // Where nothing can be written it would only add to what is lost.
            if dropped > reported && is_well {
                report(dropped - reported);
                reported = dropped;
            }
            // Half a line was written before writing failed: the next one gets a line of its own.
            is_torn = is_torn && write(&mut out, b"\n") == 0;
            let written = if is_torn { 0 } else { write(&mut out, &batch) };
            let (written, lost) = batch.split_at(written);
            is_torn |= written.last().is_some_and(|last| *last != b'\n');
            is_well = lost.is_empty();
            self.finish(lost);
        }
    }

    /// Waits for lines and moves them into `batch`; how many lines were dropped up to then.
    fn take(&self, batch: &mut Vec<u8>) -> u64 {
        batch.clear();
        let queue = self.queue();
        let is_empty = |queue: &mut Queue| queue.lines.is_empty();
        let queue = self.wanted.wait_while(queue, is_empty).unwrap_or_else(PoisonError::into_inner);
        let may_wait = |queue: &mut Queue| !queue.is_urgent && queue.lines.len() < BATCH_BYTES;
        let waited = self.wanted.wait_timeout_while(queue, GATHER, may_wait);
        let (mut queue, _) = waited.unwrap_or_else(PoisonError::into_inner);
        std::mem::swap(batch, &mut queue.lines);
        queue.is_urgent = false;
        queue.is_writing = true;
        queue.dropped
    }

    fn finish(&self, lost: &[u8]) {
        let mut queue = self.queue();
        queue.is_writing = false;
        queue.dropped += lost.iter().filter(|byte| **byte == b'\n').count() as u64;
        drop(queue);
        self.written.notify_all();
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Writes all of it, if that can be done; how many bytes were written.
fn write(out: &mut impl Write, bytes: &[u8]) -> usize {
    let mut written = 0;
    while written < bytes.len() {
        match out.write(&bytes[written..]) {
            Ok(0) => break,
            Ok(count) => written += count,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            // Another process that has the same pipe or terminal made it non-blocking.
            Err(error) if error.kind() == ErrorKind::WouldBlock => std::thread::sleep(GATHER),
            Err(_) => break,
        }
    }
    written
}

/// Takes one event's line.
#[derive(Debug)]
pub(super) struct EventLine<'a> {
    log: &'a LogWriter,
    is_urgent: bool,
}

impl Write for EventLine<'_> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.log.add(line, self.is_urgent);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for &'static LogWriter {
    type Writer = EventLine<'a>;

    fn make_writer(&'a self) -> Self::Writer {
        EventLine { log: self, is_urgent: true }
    }

    fn make_writer_for(&'a self, metadata: &Metadata<'_>) -> Self::Writer {
        // Levels are ordered by how much they say.
        EventLine { log: self, is_urgent: *metadata.level() <= Level::WARN }
    }
}

#[cfg(test)]
#[path = "log_writer_tests.rs"]
mod tests;
