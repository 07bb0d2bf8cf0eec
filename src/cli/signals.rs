//! Ctrl-C and SIGTERM.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::ops::telemetry;

/// Wishes that the process may end. None is lost between one and the next.
pub(super) struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    /// From now on the process no longer ends by itself.
    pub(super) fn new() -> io::Result<Self> {
        let (interrupt, terminate) = (SignalKind::interrupt(), SignalKind::terminate());
        Ok(Self { interrupt: signal(interrupt)?, terminate: signal(terminate)? })
    }

    /// Done when the process is asked to end.
    pub(super) async fn asked_to_end(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }

    /// A second wish to end is granted at once.
    pub(super) fn end_at_once_when_asked_again(mut self) {
        tokio::spawn(async move {
            self.asked_to_end().await;
            telemetry::flush();
            std::process::exit(130);
        });
    }
}
