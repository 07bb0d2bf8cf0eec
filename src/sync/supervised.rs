//! Supervised tasks: a panic is counted by the task's name, logged, and followed by a restart. The
//! counts are those of the process.

use std::any::Any;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::time::{Instant, sleep};
use tokio_util::task::AbortOnDropHandle;

use super::lock;

/// Pause before the first restart. Each further panic doubles it.
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// Longest pause before a restart. After a run that took longer, the next pause is [`FIRST_PAUSE`].
const MAX_PAUSE: Duration = Duration::from_secs(5);

/// How often each task has panicked, by its name.
static PANICS: Mutex<BTreeMap<&'static str, u64>> = Mutex::new(BTreeMap::new());

/// Runs the task `name` until it returns, or until the result is dropped. `start` makes its future
/// at the start and after each panic. Must be called on a runtime.
pub(crate) fn supervise<F>(
    name: &'static str,
    mut start: impl FnMut() -> F + Send + 'static,
) -> AbortOnDropHandle<()>
where
    F: Future<Output = ()> + Send + 'static,
{
    register(name);
    AbortOnDropHandle::new(tokio::spawn(async move {
        let mut pause = FIRST_PAUSE;
        loop {
            let begun = Instant::now();
            if contain(name, async { start().await }).await.is_some() {
                return;
            }
            if begun.elapsed() > MAX_PAUSE {
                pause = FIRST_PAUSE;
            }
            sleep(pause).await;
            pause = MAX_PAUSE.min(2 * pause);
        }
    }))
}

/// Runs a piece of the work of the task `name`, which must be registered. Returns `None` if it
/// panics.
pub(crate) async fn contain<T>(name: &'static str, work: impl Future<Output = T>) -> Option<T> {
    #[cfg(test)]
    let work = super::fault::fallible(name, work);
    // Tasks share only values that stay valid when one of them panics.
    let result = AssertUnwindSafe(work).catch_unwind().await;
    result.map_err(|panic| record(name, &*panic)).ok()
}

/// As [`contain`], for work that blocks its thread.
pub(crate) fn contain_blocking<T>(name: &'static str, work: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| record(name, &*panic)).ok()
}

/// Lists the task `name` in [`panics`], so that its first panic is an increase.
pub(crate) fn register(name: &'static str) {
    lock(&PANICS).entry(name).or_default();
}

/// How often each registered task has panicked since the process began.
pub(crate) fn panics() -> BTreeMap<&'static str, u64> {
    lock(&PANICS).clone()
}

fn record(task: &'static str, panic: &(dyn Any + Send)) {
    *lock(&PANICS).entry(task).or_default() += 1;
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    let message = text.unwrap_or("a panic without a message");
    tracing::error!(task, "a background task panicked and is restarted: {message}");
}

#[cfg(test)]
#[path = "supervised_tests.rs"]
mod tests;
