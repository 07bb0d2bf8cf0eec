//! Restarts, pauses, counts and log lines of supervised tasks.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::oneshot;

use super::*;

/// The log of a test.
#[derive(Debug, Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        lock(&self.0).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A task that panics as often as `runs` has durations, each time after that duration, and then
/// returns. Returns the times at which it started.
async fn starts_of(name: &'static str, runs: &[u64]) -> Vec<Instant> {
    let starts: Arc<Mutex<Vec<Instant>>> = Arc::default();
    let (noted, runs) = (Arc::clone(&starts), runs.to_vec());
    let task = supervise(name, move || {
        let mut noted = lock(&noted);
        noted.push(Instant::now());
        let run = runs.get(noted.len() - 1).copied();
        async move {
            if let Some(millis) = run {
                sleep(Duration::from_millis(millis)).await;
                panic!("after {millis} ms");
            }
        }
    });
    task.await.expect("it is not aborted");
    lock(&starts).clone()
}

#[tokio::test(start_paused = true)]
async fn each_panic_is_counted_and_logged_with_the_name_of_the_task() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone());
    let _logged = tracing::subscriber::set_default(subscriber.finish());

    let starts = starts_of("test_log", &[7, 8]).await;

    assert_eq!((starts.len(), panics()["test_log"]), (3, 2));
    let text = String::from_utf8(lock(&log.0).clone()).expect("UTF-8");
    let lines: Vec<_> = text.lines().filter(|line| line.contains("test_log")).collect();
    assert_eq!(lines.len(), 2, "{text}");
    for (line, message) in lines.iter().zip(["after 7 ms", "after 8 ms"]) {
        assert!(line.contains("ERROR") && line.contains(message), "{line}");
    }
}

#[tokio::test(start_paused = true)]
async fn pauses_double_up_to_five_seconds_and_begin_anew_after_a_long_run() {
    let runs = [0, 0, 0, 0, 0, 0, 0, 0, 6_000, 0];
    let starts = starts_of("test_pauses", &runs).await;
    let between = starts.windows(2).map(|two| two[1] - two[0]);
    let rounded: Vec<_> = between.map(|time| time.as_millis() / 50 * 50).collect();
    let expected = [100, 200, 400, 800, 1_600, 3_200, 5_000, 5_000, 6_100, 200];
    assert_eq!(rounded, expected);
}

#[tokio::test(start_paused = true)]
async fn a_panic_before_the_task_begins_is_followed_by_a_restart() {
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    let task = supervise("test_start", move || {
        assert!(counted.fetch_add(1, Ordering::Relaxed) > 0, "the first call");
        std::future::ready(())
    });
    task.await.expect("it is not aborted");
    assert_eq!((calls.load(Ordering::Relaxed), panics()["test_start"]), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn a_task_ends_with_its_owner_while_it_runs_and_while_it_pauses() {
    for panics_first in [false, true] {
        let (sender, ended) = oneshot::channel::<()>();
        let held = Arc::new(sender);
        let task = supervise("test_owner", move || {
            let held = Arc::clone(&held);
            async move {
                assert!(!panics_first, "it pauses now");
                std::future::pending::<()>().await;
                drop(held);
            }
        });
        tokio::task::yield_now().await;
        drop(task);
        assert!(ended.await.is_err(), "all that it owned is gone");
    }
}

#[test]
fn work_that_blocks_is_contained_too() {
    register("test_blocking");
    assert_eq!(panics()["test_blocking"], 0);
    assert_eq!(contain_blocking("test_blocking", || -> u8 { panic!("crash") }), None);
    assert_eq!(contain_blocking("test_blocking", || 7), Some(7));
    assert_eq!(panics()["test_blocking"], 1);
}
