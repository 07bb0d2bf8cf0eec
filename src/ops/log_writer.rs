//! Lines of the log on their way out: gathered for a moment, so that a busy service does not make
//! a system call for each request.
//!
//! Warnings and errors are written at once, with everything before them. Other lines wait for
//! [`GATHER`] at most, and for less when there are many. Order is kept. What a killed process had
//! gathered is lost; one that ends calls [`LogWriter::write_out`].

use std::io::{self, Write};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tracing::{Level, Metadata};
use tracing_subscriber::fmt::MakeWriter;

/// How long a line waits for others at most.
const GATHER: Duration = Duration::from_millis(50);

/// With so many bytes gathered, whoever adds a line writes them all: a reader of the log that is
/// slow slows the service, as it does without gathering, and memory stays flat.
const MOST: usize = 64 * 1024;

/// Gathers lines for `W`. Somebody must call [`Self::write_out_for_ever`].
#[derive(Debug)]
pub(super) struct LogWriter<W> {
    lines: Mutex<Vec<u8>>,
    has_lines: Condvar,
    /// Locked before `lines` by whoever writes, so that lines leave in their order.
    out: Mutex<W>,
}

impl<W: Write> LogWriter<W> {
    pub(super) fn new(out: W) -> Self {
        let (lines, has_lines) = (Mutex::default(), Condvar::new());
        Self { lines, has_lines, out: Mutex::new(out) }
    }

    /// Writes what has been gathered. A log that can't be written to stops nothing.
    pub(super) fn write_out(&self) {
        let mut out = self.out.lock().unwrap_or_else(PoisonError::into_inner);
        let lines = std::mem::take(&mut *self.lines());
        let _ = out.write_all(&lines).and_then(|()| out.flush());
    }

    /// To be run by a thread of its own.
    pub(super) fn write_out_for_ever(&self) {
        loop {
            let lines = self.lines();
            drop(
                self.has_lines
                    .wait_while(lines, |lines| lines.is_empty())
                    .unwrap_or_else(PoisonError::into_inner),
            );
            std::thread::sleep(GATHER);
            self.write_out();
        }
    }

    fn add(&self, line: &[u8], is_urgent: bool) {
        let mut lines = self.lines();
        if lines.is_empty() {
            // Room for all that can come, so that it never grows line by line.
            lines.reserve(MOST + line.len());
            self.has_lines.notify_one();
        }
        lines.extend_from_slice(line);
        let is_full = lines.len() >= MOST;
        drop(lines);
        if is_urgent || is_full {
            self.write_out();
        }
    }

    fn lines(&self) -> MutexGuard<'_, Vec<u8>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What takes one event's line.
#[derive(Debug)]
pub(super) struct Line<'a, W> {
    log: &'a LogWriter<W>,
    is_urgent: bool,
}

impl<W: Write> Write for Line<'_, W> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.log.add(line, self.is_urgent);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a, W: Write + 'static> MakeWriter<'a> for &'static LogWriter<W> {
    type Writer = Line<'a, W>;

    fn make_writer(&'a self) -> Self::Writer {
        Line { log: self, is_urgent: true }
    }

    fn make_writer_for(&'a self, about: &Metadata<'_>) -> Self::Writer {
        // Levels are ordered by how much they say.
        Line { log: self, is_urgent: *about.level() <= Level::WARN }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};

    use super::*;

    struct Out(Sender<String>);

    impl Write for Out {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let text = String::from_utf8_lossy(bytes).into_owned();
            self.0.send(text).map_err(|_| io::ErrorKind::BrokenPipe)?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn log() -> (&'static LogWriter<Out>, Receiver<String>) {
        let (sender, written) = channel();
        (Box::leak(Box::new(LogWriter::new(Out(sender)))), written)
    }

    #[test]
    fn lines_are_gathered_until_one_is_urgent() {
        let (log, written) = log();
        log.add(b"a\n", false);
        log.add(b"b\n", false);
        assert!(written.try_recv().is_err());
        log.add(b"c\n", true);
        assert_eq!(written.try_recv().as_deref(), Ok("a\nb\nc\n"));
        log.write_out();
        assert!(written.try_iter().all(|text| text.is_empty()));
    }

    #[test]
    fn no_line_waits_for_ever_and_memory_stays_flat() {
        let (log, written) = log();
        std::thread::spawn(|| log.write_out_for_ever());
        log.add(b"alone\n", false);
        let patience = Duration::from_secs(30);
        assert_eq!(written.recv_timeout(patience).as_deref(), Ok("alone\n"));
        (0..10_000).for_each(|_| log.add(&[b'x'; 100], false));
        assert!(log.lines().len() < MOST);
        log.write_out();
        let bytes: usize = written.try_iter().map(|text| text.len()).sum();
        assert_eq!(bytes, 1_000_000);
    }

    #[test]
    fn lines_of_many_threads_leave_whole() {
        let (log, written) = log();
        let threads: Vec<_> = (0..4)
            .map(|thread| {
                std::thread::spawn(move || {
                    (0..5_000).for_each(|n| {
                        log.add(format!("{thread} {n}\n").as_bytes(), n % 97 == 0);
                    });
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
        log.write_out();
        let text: String = written.try_iter().collect();
        for thread in 0..4 {
            let mine = text.lines().filter_map(|line| line.strip_prefix(&format!("{thread} ")));
            assert!(mine.map(|n| n.parse::<u32>().expect("a number")).eq(0..5_000), "in order");
        }
    }
}
