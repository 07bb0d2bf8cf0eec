use std::io::{BufRead, BufReader, PipeReader};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Instant;

use super::*;
use crate::sync::supervised::panics;

/// For what happens at once, on a loaded machine.
const SOON: Duration = Duration::from_secs(30);

/// A log that writes to `out`, and reports there how many lines were dropped.
fn log_to(out: impl Write + Send + 'static) -> &'static LogWriter {
    let log: &'static LogWriter = Box::leak(Box::new(LogWriter::new()));
    std::thread::spawn(move || {
        log.run(out, |dropped| log.add(format!("dropped {dropped}\n").as_bytes(), true));
    });
    log
}

/// The lines that come out of a pipe, read from now on.
fn lines_of(reader: PipeReader) -> Receiver<String> {
    let (sender, lines) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(reader).lines() {
            let sent = line.map(|line| sender.send(line));
            if !matches!(sent, Ok(Ok(()))) {
                break;
            }
        }
    });
    lines
}

/// Adds numbered lines of 200 bytes from several threads at once.
fn add_from_threads(log: &'static LogWriter, each: usize) {
    let threads: Vec<_> = (0..4)
        .map(|thread| {
            std::thread::spawn(move || {
                for n in 0..each {
                    let line = format!("{thread} {n} ");
                    log.add(format!("{line:x<199}\n").as_bytes(), n % 97 == 0);
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
}

/// Checks that numbered lines are whole and in the order of their threads; how many there are.
fn whole_and_in_order(lines: &[String]) -> u64 {
    let mut next = [0; 4];
    let mut count = 0;
    for line in lines {
        let mut words = line.split(' ');
        let mut number = || words.next().and_then(|word| word.parse::<usize>().ok());
        let (thread, n) = (number().expect(line), number().expect(line));
        assert!(line.len() == 199 && line.ends_with('x'), "{line}");
        assert!(n >= next[thread], "{line}, after {}", next[thread]);
        next[thread] = n + 1;
        count += 1;
    }
    count
}

#[test]
fn a_reader_that_stalls_keeps_nobody_waiting_and_learns_how_many_lines_were_dropped() {
    let (reader, out) = std::io::pipe().expect("a pipe");
    let log = log_to(out);

    add_from_threads(log, 5_000);

    let dropped = log.dropped();
    assert!(dropped > 10_000, "the pipe and the queue hold few of 4 MB: {dropped}");
    let lines = lines_of(reader);
    let (mut read, mut reported) = (Vec::new(), 0);
    // Some may have been dropped, and reported, before the pipe was full.
    while reported < dropped || (read.len() as u64) + dropped < 20_000 {
        let line = lines.recv_timeout(SOON).expect("every line that was not dropped");
        match line.strip_prefix("dropped ") {
            Some(count) => reported += count.parse::<u64>().expect("a number"),
            None => read.push(line),
        }
    }
    assert_eq!(reported, dropped);
    assert_eq!(whole_and_in_order(&read) + dropped, 20_000);

    log.add(b"after\n", false);
    assert_eq!(lines.recv_timeout(SOON).as_deref(), Ok("after"));
    assert_eq!(log.dropped(), dropped);
}

#[test]
fn warnings_find_room_when_other_lines_have_filled_the_queue() {
    let log = LogWriter::new();
    let line = [b"x".repeat(999), b"\n".to_vec()].concat();
    while log.dropped() == 0 {
        log.add(&line, false);
    }
    log.add(b"warning\n", true);
    assert_eq!(log.dropped(), 1);
    while log.dropped() == 1 {
        log.add(&line, true);
    }
    assert!(log.queue().lines.len() <= QUEUE_BYTES);
    assert!(log.queue().lines.len() + line.len() > QUEUE_BYTES);
}

#[test]
fn the_audit_log_finds_room_when_other_lines_have_filled_the_queue() {
    let log: &'static LogWriter = Box::leak(Box::new(LogWriter::new()));
    let line = [b"x".repeat(999), b"\n".to_vec()].concat();
    while log.dropped() == 0 {
        log.add(&line, false);
    }
    let subscriber = tracing_subscriber::fmt().with_writer(log).finish();
    tracing::subscriber::with_default(subscriber, || {
        let text = "y".repeat(999);
        tracing::info!("{text}");
        assert_eq!(log.dropped(), 2);
        tracing::info!(target: AUDIT, "{text}");
        assert_eq!(log.dropped(), 2);
    });
    assert!(String::from_utf8_lossy(&log.queue().lines).contains("yyy"));
}

#[test]
fn lines_of_many_threads_leave_whole_and_in_order() {
    let (reader, out) = std::io::pipe().expect("a pipe");
    let (log, lines) = (log_to(out), lines_of(reader));
    // The queue has room for all of them, however late the thread is.
    add_from_threads(log, 250);
    let read: Vec<_> = (0..1_000).map(|_| lines.recv_timeout(SOON).expect("a line")).collect();
    assert_eq!((whole_and_in_order(&read), log.dropped()), (1_000, 0));
}

#[test]
fn a_flush_ends_when_all_is_written_and_gives_up_on_a_reader_that_stalls() {
    let (reader, out) = std::io::pipe().expect("a pipe");
    let log = log_to(out);
    log.flush(SOON);
    log.add(b"alone\n", false);
    log.flush(SOON);
    let begun = Instant::now();
    add_from_threads(log, 1_000);
    log.flush(Duration::from_millis(100));
    assert!(begun.elapsed() < SOON);

    let lines = lines_of(reader);
    assert_eq!(lines.recv_timeout(SOON).as_deref(), Ok("alone"));
    log.flush(SOON);
    assert!(log.queue().lines.is_empty());
}

/// Writes half of the first line, fails as often as it is told to, and then writes all.
struct Failing {
    /// What each call does, the last one for ever.
    script: Vec<Result<usize, ErrorKind>>,
    written: Sender<String>,
}

impl Write for Failing {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let next = if self.script.len() > 1 { self.script.remove(0) } else { self.script[0] };
        let length = next?.min(bytes.len());
        let text = String::from_utf8_lossy(&bytes[..length]).into_owned();
        self.written.send(text).map_err(|_| ErrorKind::BrokenPipe)?;
        Ok(length)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn lines_that_could_not_be_written_count_as_dropped_and_leave_no_half_line() {
    let (sender, written) = channel();
    let full = Err(ErrorKind::StorageFull);
    let script = vec![
        Err(ErrorKind::Interrupted),
        Err(ErrorKind::WouldBlock),
        Ok(2),
        full,
        full,
        Ok(usize::MAX),
    ];
    let log = log_to(Failing { script, written: sender });
    // Torn after two bytes; then nothing can be written.
    for (lines, dropped) in [("one\n", 1), ("two\nmore\n", 3)] {
        log.add(lines.as_bytes(), true);
        log.flush(SOON);
        assert_eq!(log.dropped(), dropped);
    }
    for lines in ["three\n", "four\n"] {
        log.add(lines.as_bytes(), true);
        log.flush(SOON);
    }
    let text: String = written.try_iter().collect();
    assert_eq!(text, "on\nthree\nfour\ndropped 3\n");
    assert_eq!(log.dropped(), 3);
}

/// Panics in the first write.
struct PanicsOnce(bool, Sender<String>);

impl Write for PanicsOnce {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        assert!(std::mem::replace(&mut self.0, true), "a panic that the test causes");
        let text = String::from_utf8_lossy(bytes).into_owned();
        self.1.send(text).map_err(|_| ErrorKind::BrokenPipe)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn after_a_panic_the_batch_counts_as_dropped_and_the_next_one_is_written() {
    let (sender, written) = channel();
    let log = log_to(PanicsOnce(false, sender));
    let before = Instant::now();
    log.add(b"one\ntwo\n", true);
    log.flush(SOON);
    assert!(log.dropped() == 2 && before.elapsed() < SOON, "the flush does not wait for it");
    for lines in ["three\n", "four\n"] {
        log.add(lines.as_bytes(), true);
        log.flush(SOON);
    }
    let text: String = written.try_iter().collect();
    assert_eq!(text, "three\nfour\ndropped 2\n");
    assert!(panics()[TASK] >= 1);
}
