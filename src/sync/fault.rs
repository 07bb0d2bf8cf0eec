//! For tests: causes panics in supervised tasks. Concerns only tasks that run on the test's own
//! thread, as those of a current-thread runtime do.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

/// The fault of one task.
#[derive(Debug, Default)]
struct Fault {
    wanted: Notify,
    has_panicked: AtomicBool,
    has_restarted: AtomicBool,
}

thread_local! {
    static FAULTS: RefCell<HashMap<&'static str, Arc<Fault>>> = RefCell::default();
}

fn fault_of(task: &'static str) -> Arc<Fault> {
    FAULTS.with_borrow_mut(|faults| Arc::clone(faults.entry(task).or_default()))
}

/// Makes the task panic: its run under way, or else its next one.
pub(crate) fn cause_panic(task: &'static str) {
    fault_of(task).wanted.notify_one();
}

/// The tasks that have run, and whether each has run again after a panic that was caused.
pub(crate) fn tasks() -> HashMap<&'static str, bool> {
    let restarted = |fault: &Fault| fault.has_restarted.load(Ordering::Relaxed);
    FAULTS.with_borrow(|faults| {
        faults.iter().map(|(task, fault)| (*task, restarted(fault))).collect()
    })
}

/// Runs the work of a task, unless its panic is wanted before it ends.
pub(super) async fn fallible<T>(task: &'static str, work: impl Future<Output = T>) -> T {
    let fault = fault_of(task);
    if fault.has_panicked.load(Ordering::Relaxed) {
        fault.has_restarted.store(true, Ordering::Relaxed);
    }
    tokio::select! {
        biased;
        () = fault.wanted.notified() => {
            fault.has_panicked.store(true, Ordering::Relaxed);
            panic!("{task}: a panic that the test causes");
        }
        value = work => value,
    }
}
