//! Tells the service manager that has started the process, such as systemd, when the replica is ready,
//! that it still runs, and when it shuts down: the protocol of sd_notify(3).

use std::io;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::Duration;

use sd_notify::NotifyState;
use tokio_util::task::AbortOnDropHandle;

/// Messages that may wait for a service manager that does not read.
const MAX_WAITING: usize = 8;

/// Shorter intervals, which no service manager sets, would keep a processor busy.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(10);

/// Sends messages to the service manager; to none if the variable `NOTIFY_SOCKET` is not set.
#[derive(Debug, Clone)]
pub(super) struct ServiceManager(SyncSender<NotifyState<'static>>);

impl ServiceManager {
    /// Sends from a thread of its own, because sending waits for a service manager that does not read.
    ///
    /// # Errors
    /// The thread could not be started.
    pub(super) fn new() -> io::Result<Self> {
        let (sender, messages) = sync_channel::<NotifyState<'static>>(MAX_WAITING);
        std::thread::Builder::new().name("service-manager".to_owned()).spawn(move || {
            for message in messages {
                if let Err(error) = sd_notify::notify(std::slice::from_ref(&message)) {
                    tracing::warn!(%error, "cannot tell the service manager {message}");
                }
            }
        })?;
        Ok(Self(sender))
    }

    /// The replica is ready.
    pub(super) fn ready(&self) {
        self.send(NotifyState::Ready);
    }

    /// The replica shuts down.
    pub(super) fn stopping(&self) {
        self.send(NotifyState::Stopping);
    }

    /// Reports twice in each interval of the watchdog, as sd_watchdog_enabled(3) recommends, that this
    /// process runs tasks, until the handle is dropped. `None` if no watchdog is set for this process.
    pub(super) fn feed_watchdog(&self) -> Option<AbortOnDropHandle<()>> {
        let interval = sd_notify::watchdog_enabled()?;
        if interval < SHORTEST_INTERVAL {
            return None;
        }
        let manager = self.clone();
        Some(AbortOnDropHandle::new(tokio::spawn(async move {
            loop {
                manager.send(NotifyState::Watchdog);
                tokio::time::sleep(interval / 2).await;
            }
        })))
    }

    /// A message for which there is no room is lost: the service manager hangs.
    fn send(&self, message: NotifyState<'static>) {
        let _ = self.0.try_send(message);
    }
}
