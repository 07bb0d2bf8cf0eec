//! Single flight: callers that need the same thing at the same time share one piece of work.
//!
//! The work runs in a task of its own, so a caller that stops waiting neither ends nor delays it
//! for the others. Where it began too early for a caller, that caller begins newer work, which later
//! callers share.

use std::collections::HashMap;
use std::future::Future;
use std::hash::Hash;
use std::mem::ManuallyDrop;
use std::sync::{Arc, Mutex};

use tokio::sync::watch;

use super::supervised::{contain, register};
use super::{TaskPanicked, lock};

/// The pieces of work under way, by key. `B` describes the beginning of each.
#[derive(Debug)]
pub struct SingleFlight<K, V: Clone, B = ()> {
    name: &'static str,
    under_way: Arc<Mutex<UnderWay<K, V, B>>>,
}

/// The newest piece of work for each key.
type UnderWay<K, V, B> = HashMap<K, Flight<V, B>>;

#[derive(Debug)]
struct Flight<V, B> {
    beginning: B,
    receiver: FlightReceiver<V>,
}

/// Wakes each waiting caller by itself. With a shared future one caller wakes the others, so one
/// that leaves at the wrong moment would leave them asleep.
pub type FlightReceiver<V> = watch::Receiver<Option<V>>;

/// The result of a piece of work, and whether another caller had begun it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlightOutcome<V> {
    /// What the work returned.
    pub value: V,
    /// Whether this caller joined work that was under way.
    pub joined: bool,
}

impl<K, V: Clone, B> SingleFlight<K, V, B> {
    /// Nothing is under way. Panics are counted under `name`.
    pub fn new(name: &'static str) -> Self {
        register(name);
        Self { name, under_way: Arc::default() }
    }
}

impl<K, V> SingleFlight<K, V>
where
    K: Clone + Eq + Hash + Send + 'static,
    V: Clone + Send + Sync + 'static,
{
    /// Waits for the work on `key`, and begins it with `work` if none is under way. Must be called
    /// on a runtime.
    ///
    /// # Errors
    /// [`TaskPanicked`] when the work panicked.
    pub async fn run<W, F>(&self, key: &K, work: W) -> Result<FlightOutcome<V>, TaskPanicked>
    where
        W: FnOnce() -> F,
        F: Future<Output = V> + Send + 'static,
    {
        self.run_if(key, (), |()| true, work).await
    }
}

impl<K, V, B> SingleFlight<K, V, B>
where
    K: Clone + Eq + Hash + Send + 'static,
    V: Clone + Send + Sync + 'static,
    B: Send + 'static,
{
    /// Waits for the work on `key` that is under way if `may_join` accepts its beginning. Otherwise
    /// begins `work`, whose beginning is `beginning`. Must be called on a runtime.
    ///
    /// # Errors
    /// [`TaskPanicked`] when the work panicked.
    pub async fn run_if<W, F>(
        &self,
        key: &K,
        beginning: B,
        may_join: impl FnOnce(&B) -> bool,
        work: W,
    ) -> Result<FlightOutcome<V>, TaskPanicked>
    where
        W: FnOnce() -> F,
        F: Future<Output = V> + Send + 'static,
    {
        let (mut receiver, joined) = self.receiver(key, beginning, may_join, work);
        // The sender is dropped without a value if the task panicked.
        let value = receiver.wait_for(Option::is_some).await.map_err(|_| TaskPanicked)?.clone();
        Ok(FlightOutcome { value: value.ok_or(TaskPanicked)?, joined })
    }

    /// Begins the work on `key` if none is under way, without waiting for it. Returns what receives
    /// its value if this call began it.
    pub fn spawn<W, F>(&self, key: &K, beginning: B, work: W) -> Option<FlightReceiver<V>>
    where
        W: FnOnce() -> F,
        F: Future<Output = V> + Send + 'static,
    {
        let (receiver, joined) = self.receiver(key, beginning, |_| true, work);
        (!joined).then_some(receiver)
    }

    fn receiver<W, F>(
        &self,
        key: &K,
        beginning: B,
        may_join: impl FnOnce(&B) -> bool,
        work: W,
    ) -> (FlightReceiver<V>, bool)
    where
        W: FnOnce() -> F,
        F: Future<Output = V> + Send + 'static,
    {
        let mut under_way = lock(&self.under_way);
        if let Some(flight) = under_way.get(key)
            && may_join(&flight.beginning)
        {
            return (flight.receiver.clone(), true);
        }
        let (sender, receiver) = watch::channel(None);
        under_way.insert(key.clone(), Flight { beginning, receiver: receiver.clone() });
        // Unlocked before `work` is called: if that panics, the drop of `entry` takes the lock.
        drop(under_way);
        let entry = FlightEntry {
            key: key.clone(),
            receiver: receiver.clone(),
            under_way: Arc::clone(&self.under_way),
        };
        let (name, work) = (self.name, work());
        // Dropped only after the work: when the runtime ends, no caller is told of a panic.
        let sender = ManuallyDrop::new(sender);
        tokio::spawn(async move {
            // Removed before any caller gets the value, and also when the work panics.
            let value = {
                let _entry = entry;
                contain(name, work).await
            };
            // Fails if all callers have stopped waiting, which is not an error.
            let _ = ManuallyDrop::into_inner(sender).send(value);
        });
        (receiver, false)
    }
}

/// Removes the work from those under way when it is dropped, unless newer work has replaced it.
struct FlightEntry<K: Eq + Hash, V, B> {
    key: K,
    receiver: FlightReceiver<V>,
    under_way: Arc<Mutex<UnderWay<K, V, B>>>,
}

impl<K: Eq + Hash, V, B> Drop for FlightEntry<K, V, B> {
    fn drop(&mut self) {
        let mut under_way = lock(&self.under_way);
        let current = under_way.get(&self.key).map(|flight| &flight.receiver);
        if current.is_some_and(|current| current.same_channel(&self.receiver)) {
            under_way.remove(&self.key);
        }
    }
}

#[cfg(test)]
#[path = "single_flight_tests.rs"]
mod tests;
