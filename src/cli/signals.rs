//! Handles SIGINT (Ctrl-C) and SIGTERM.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::ops::telemetry;

/// Receives SIGINT and SIGTERM. No signal is lost between two calls.
pub(super) struct TerminationSignals {
    interrupt: Signal,
    terminate: Signal,
}

impl TerminationSignals {
    /// From now on the signals no longer end the process.
    pub(super) fn new() -> io::Result<Self> {
        let (interrupt, terminate) = (SignalKind::interrupt(), SignalKind::terminate());
        Ok(Self { interrupt: signal(interrupt)?, terminate: signal(terminate)? })
    }

    /// Completes when a signal has been received.
    pub(super) async fn received(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }

    /// Ends the process at the next signal, with exit status 130.
    pub(super) fn exit_on_next(mut self) {
        tokio::spawn(async move {
            self.received().await;
            telemetry::flush();
            std::process::exit(130);
        });
    }
}
