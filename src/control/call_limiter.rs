//! Bounds how many calls use the store of the keys at once, so that no user keeps other users, and
//! nobody keeps operators, from managing keys.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::error::ControlApiError;
use super::identity::Caller;
use crate::keys::MAX_STORE_CONNECTIONS;
use crate::sync::lock;

/// Calls of one user at once.
const MAX_CALLS_OF_USER: usize = 2;

/// Calls of all users at once, without revocations and the calls of operators, for which the other
/// connections are free.
const MAX_CALLS_OF_USERS: usize = MAX_STORE_CONNECTIONS / 2;

/// How long a call waits for others to end.
const MAX_WAIT: Duration = Duration::from_secs(2);

/// The calls that use the store.
#[derive(Debug)]
pub(super) struct CallLimiter {
    /// Of each user with a call in progress.
    of_user: Mutex<HashMap<String, Arc<Semaphore>>>,
    of_users: Arc<Semaphore>,
}

/// A call in progress, until it is dropped.
#[derive(Debug)]
pub(super) struct CallSlot {
    of_user: OwnedSemaphorePermit,
    _of_users: Option<OwnedSemaphorePermit>,
}

impl CallSlot {
    /// Ends the use of the store. Until the result is dropped, the call still counts as one of its user.
    pub(super) fn into_call_of_user(self) -> OwnedSemaphorePermit {
        self.of_user
    }
}

impl CallLimiter {
    /// No calls yet.
    pub(super) fn new() -> Self {
        Self { of_user: Mutex::default(), of_users: Arc::new(Semaphore::new(MAX_CALLS_OF_USERS)) }
    }

    /// Begins a call, when it is the caller's turn.
    ///
    /// # Errors
    /// [`ControlApiError::TooManyCalls`] after two seconds.
    pub(super) async fn begin(&self, caller: &Caller) -> Result<CallSlot, ControlApiError> {
        let of_users = (!caller.operator).then(|| Arc::clone(&self.of_users));
        self.acquire(&caller.user, of_users).await
    }

    /// As [`Self::begin`], for a revocation.
    pub(super) async fn begin_revocation(
        &self,
        caller: &Caller,
    ) -> Result<CallSlot, ControlApiError> {
        self.acquire(&caller.user, None).await
    }

    async fn acquire(
        &self,
        user: &str,
        of_users: Option<Arc<Semaphore>>,
    ) -> Result<CallSlot, ControlApiError> {
        let of_user = self.calls_of(user);
        let acquire = async {
            // First the user's own, so that only two calls of a user wait among those of all.
            let of_user = of_user.acquire_owned().await.ok()?;
            let of_users = match of_users {
                Some(of_users) => Some(of_users.acquire_owned().await.ok()?),
                None => None,
            };
            Some(CallSlot { of_user, _of_users: of_users })
        };
        timeout(MAX_WAIT, acquire).await.ok().flatten().ok_or(ControlApiError::TooManyCalls)
    }

    fn calls_of(&self, user: &str) -> Arc<Semaphore> {
        let mut users = lock(&self.of_user);
        // Calls in progress, and those that wait, hold references of their own.
        users.retain(|_, calls| Arc::strong_count(calls) > 1);
        let calls = users.entry(user.to_owned());
        Arc::clone(calls.or_insert_with(|| Arc::new(Semaphore::new(MAX_CALLS_OF_USER))))
    }
}
