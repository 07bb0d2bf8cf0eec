//! For tests: work on a runtime that is ending.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

/// Runs `work` where every task that it spawns is dropped at once, as in the last moments of a
/// process. What it gave, or nothing where it hangs.
pub(crate) fn on_an_ending_runtime<F>(work: F) -> Option<F::Output>
where
    F: Future<Output: Send> + Send + 'static,
{
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.expect("a runtime");
    let (ended, end) = channel();
    let (done, result) = channel();
    let (begun, beginning) = channel();
    runtime.spawn(last(ended));
    runtime.spawn(during(begun, end, work, done));
    beginning.recv().expect("it runs");
    runtime.shutdown_background();
    result.recv_timeout(Duration::from_secs(20)).ok()
}

/// Goes when the runtime takes no new tasks any more.
async fn last(_ended: Sender<()>) {
    std::future::pending().await
}

async fn during<F: Future>(begun: Sender<()>, end: Receiver<()>, work: F, done: Sender<F::Output>) {
    let _ = begun.send(());
    // Blocks its thread; the other one ends the runtime.
    let _ = end.recv();
    let work = std::pin::pin!(work);
    if let std::task::Poll::Ready(value) = futures_util::poll!(work) {
        let _ = done.send(value);
    }
}
