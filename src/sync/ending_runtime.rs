//! For tests: runs work on a runtime that is shutting down.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

/// Polls `work` once on a runtime that drops every newly spawned task at once, as at the end of a
/// process. Returns its output, or `None` if it is still pending.
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

/// Is dropped, and with it the sender, when the runtime takes no new tasks any more.
async fn last(_ended: Sender<()>) {
    std::future::pending().await
}

async fn during<F: Future>(begun: Sender<()>, end: Receiver<()>, work: F, done: Sender<F::Output>) {
    let _ = begun.send(());
    // Blocks its thread while the other one shuts the runtime down.
    let _ = end.recv();
    let work = std::pin::pin!(work);
    if let std::task::Poll::Ready(value) = futures_util::poll!(work) {
        let _ = done.send(value);
    }
}
