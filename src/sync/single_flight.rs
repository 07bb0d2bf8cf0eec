//! One piece of work for everybody who asks for the same thing at the same time.
//!
//! The work is driven by a task of its own: a caller that leaves can't kill or stall it for
//! the others.

use std::collections::HashMap;
use std::future::Future;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use super::TaskPanicked;

/// Pieces of work under way, by what they are for.
#[derive(Debug)]
pub struct SingleFlight<K, V: Clone> {
    under_way: Arc<Mutex<HashMap<K, FlightReceiver<V>>>>,
}

/// Each who waits is woken for itself. Where one wakes the others, as with a shared future, one
/// that leaves at the wrong moment leaves them asleep.
type FlightReceiver<V> = watch::Receiver<Option<V>>;

/// The outcome of a piece of work, and whether somebody else had begun it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlightOutcome<V> {
    /// What the work gave.
    pub value: V,
    /// Whether this caller joined work that was under way.
    pub joined: bool,
}

impl<K, V: Clone> Default for SingleFlight<K, V> {
    fn default() -> Self {
        Self { under_way: Arc::default() }
    }
}

impl<K, V> SingleFlight<K, V>
where
    K: Clone + Eq + Hash + Send + 'static,
    V: Clone + Send + Sync + 'static,
{
    /// Waits for the work on `key`; begins it with `work` where none is under way.
    ///
    /// # Errors
    /// [`TaskPanicked`] when the work panicked.
    pub async fn run<W, F>(&self, key: &K, work: W) -> Result<FlightOutcome<V>, TaskPanicked>
    where
        W: FnOnce() -> F,
        F: Future<Output = V> + Send + 'static,
    {
        let (mut receiver, joined) = self.receiver(key, work);
        // Closed without a value is what a panic leaves behind.
        let value = receiver.wait_for(Option::is_some).await.map_err(|_| TaskPanicked)?.clone();
        Ok(FlightOutcome { value: value.ok_or(TaskPanicked)?, joined })
    }

    /// Begins the work on `key`, where none is under way; nobody waits for it.
    pub fn spawn<W, F>(&self, key: &K, work: W)
    where
        W: FnOnce() -> F,
        F: Future<Output = V> + Send + 'static,
    {
        drop(self.receiver(key, work));
    }

    fn receiver<W, F>(&self, key: &K, work: W) -> (FlightReceiver<V>, bool)
    where
        W: FnOnce() -> F,
        F: Future<Output = V> + Send + 'static,
    {
        let mut under_way = lock(&self.under_way);
        if let Some(receiver) = under_way.get(key) {
            return (receiver.clone(), true);
        }
        let (sender, receiver) = watch::channel(None);
        under_way.insert(key.clone(), receiver.clone());
        // Not held while somebody else's code runs, whose panic would want it too.
        drop(under_way);
        let entry = FlightEntry { key: key.clone(), under_way: Arc::clone(&self.under_way) };
        let work = work();
        tokio::spawn(async move {
            // Taken off the list before anybody hears of it, and also when the work panics.
            let value = {
                let _entry = entry;
                work.await
            };
            // Nobody waits any more: the work was still worth finishing.
            let _ = sender.send(Some(value));
        });
        (receiver, false)
    }
}

struct FlightEntry<K: Eq + Hash, V: Clone> {
    key: K,
    under_way: Arc<Mutex<HashMap<K, FlightReceiver<V>>>>,
}

impl<K: Eq + Hash, V: Clone> Drop for FlightEntry<K, V> {
    fn drop(&mut self) {
        lock(&self.under_way).remove(&self.key);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
#[path = "single_flight_tests.rs"]
mod tests;
