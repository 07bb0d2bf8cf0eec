//! Writes the log. No other thread waits for the log's reader.
//!
//! Lines go to a bounded queue, which one thread drains ([`LogWriter::run`]). Urgent lines, which are
//! warnings, errors and audit events, wake the thread at once; other lines are gathered for up to
//! 50 ms, so that a busy service does not make a system call for each request. Order is kept.
//!
//! When the reader stalls, only that thread waits. The queue fills up, and further lines are
//! dropped and counted. When the reader goes on, one line reports how many were dropped. A process
//! that is killed loses the queued lines; one that ends calls [`LogWriter::flush`]. A panic of the
//! thread counts as a write that failed.

use std::io::{self, ErrorKind, Write};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tracing::{Level, Metadata};
use tracing_subscriber::fmt::MakeWriter;

use crate::sync::supervised::{contain_blocking, register};

/// The target of audit events, which are logged at every level of the log unless a directive of
/// `log.level` names this target.
pub const AUDIT: &str = "gene_registry::audit";

/// The name of the thread among the supervised tasks.
const TASK: &str = "log_writer";

/// Pause after a panic, which itself is logged.
const PANIC_PAUSE: Duration = Duration::from_millis(500);

/// Maximum time for which lines are gathered before they are written together.
const MAX_GATHER_TIME: Duration = Duration::from_millis(50);

/// Queued bytes at which the thread writes at once.
const BATCH_BYTES: usize = 64 * 1024;

/// Maximum number of queued bytes: about 1,300 lines about requests.
const QUEUE_BYTES: usize = 256 * 1024;

/// The part of the queue that is reserved for urgent lines, so that these are dropped last; among them
/// is the report of dropped lines.
const RESERVED_BYTES: usize = 32 * 1024;

/// The log of a process.
#[derive(Debug)]
pub(super) struct LogWriter {
    queue: Mutex<Queue>,
    /// Notified when the thread has something to do.
    work: Condvar,
    /// Notified when the thread has written a batch.
    written: Condvar,
}

#[derive(Debug)]
struct Queue {
    /// Whole lines.
    lines: Vec<u8>,
    /// Whether the thread should write at once instead of gathering more.
    is_urgent: bool,
    /// Whether the thread has taken a batch that is not written yet.
    is_writing: bool,
    /// Number of lines dropped since the process began.
    dropped: u64,
}

impl LogWriter {
    pub(super) const fn new() -> Self {
        let queue = Queue { lines: Vec::new(), is_urgent: false, is_writing: false, dropped: 0 };
        Self { queue: Mutex::new(queue), work: Condvar::new(), written: Condvar::new() }
    }

    /// Queues whole lines, or drops them if the queue is full; they count as one line. Never waits for
    /// the reader. If `is_urgent`, they and all lines before them are written at once.
    pub(super) fn add(&self, lines: &[u8], is_urgent: bool) {
        let mut queue = self.queue();
        let before = queue.lines.len();
        let after = before + lines.len();
        if after > if is_urgent { QUEUE_BYTES } else { QUEUE_BYTES - RESERVED_BYTES } {
            queue.dropped += 1;
            return;
        }
        queue.lines.extend_from_slice(lines);
        let is_full_batch = before < BATCH_BYTES && after >= BATCH_BYTES;
        let wakes_thread = before == 0 || is_full_batch || is_urgent && !queue.is_urgent;
        queue.is_urgent |= is_urgent;
        drop(queue);
        if wakes_thread {
            self.work.notify_one();
        }
    }

    /// Number of lines dropped since the process began, because the queue was full or writing failed.
    pub(super) fn dropped(&self) -> u64 {
        self.queue().dropped
    }

    /// Waits until the queue is written, for at most `timeout`.
    pub(super) fn flush(&self, timeout: Duration) {
        let mut queue = self.queue();
        queue.is_urgent |= !queue.lines.is_empty();
        self.work.notify_one();
        let is_pending = |queue: &mut Queue| queue.is_writing || !queue.lines.is_empty();
        drop(self.written.wait_timeout_while(queue, timeout, is_pending));
    }

    /// Writes the queue to `out`; does not return. Runs on a thread of its own. Calls `report` with
    /// the number of lines dropped since its last call, once `out` accepts lines again.
    pub(super) fn run(&self, mut out: impl Write, report: impl Fn(u64)) -> ! {
        register(TASK);
        let mut batch = Vec::with_capacity(BATCH_BYTES);
        let (mut reported, mut ends_mid_line, mut is_writable) = (0, false, true);
        loop {
            let dropped = self.take(&mut batch);
            let written = contain_blocking(TASK, || {
                // The lines were dropped after the batch was queued, so the report belongs after
                // it; it finds an empty queue. While writing fails, it would be lost too.
                if dropped > reported && is_writable {
                    report(dropped - reported);
                    reported = dropped;
                }
                // Ends a line of which only a part was written before writing failed.
                ends_mid_line = ends_mid_line && write(&mut out, b"\n") == 0;
                if ends_mid_line { 0 } else { write(&mut out, &batch) }
            });
            let (done, lost) = batch.split_at(written.unwrap_or(0));
            ends_mid_line |= done.last().is_some_and(|last| *last != b'\n');
            is_writable = lost.is_empty();
            self.finish(lost);
            if written.is_none() {
                std::thread::sleep(PANIC_PAUSE);
            }
        }
    }

    /// Waits for lines and moves them into `batch`. Returns the number of lines dropped so far.
    fn take(&self, batch: &mut Vec<u8>) -> u64 {
        batch.clear();
        let queue = self.queue();
        let is_empty = |queue: &mut Queue| queue.lines.is_empty();
        let queue = self.work.wait_while(queue, is_empty).unwrap_or_else(PoisonError::into_inner);
        let may_gather = |queue: &mut Queue| !queue.is_urgent && queue.lines.len() < BATCH_BYTES;
        let waited = self.work.wait_timeout_while(queue, MAX_GATHER_TIME, may_gather);
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

/// Writes the bytes until an error occurs. Returns the number of bytes written.
fn write(out: &mut impl Write, bytes: &[u8]) -> usize {
    let mut written = 0;
    while written < bytes.len() {
        match out.write(&bytes[written..]) {
            Ok(0) => break,
            Ok(count) => written += count,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            // Another process that shares the pipe or terminal has made it non-blocking.
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                std::thread::sleep(MAX_GATHER_TIME)
            }
            Err(_) => break,
        }
    }
    written
}

/// Queues the line of one event.
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
        // Less verbose levels are smaller.
        let is_urgent = *metadata.level() <= Level::WARN || metadata.target() == AUDIT;
        EventLine { log: self, is_urgent }
    }
}

#[cfg(test)]
#[path = "log_writer_tests.rs"]
mod tests;
