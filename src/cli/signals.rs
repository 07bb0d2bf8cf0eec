//! Ctrl-C and SIGTERM.

use std::io;

use tokio::signal::unix::{SignalKind, signal};

use crate::ops::telemetry;

/// Done when the process is asked to end.
pub(super) async fn asked_to_end() -> io::Result<()> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    Ok(())
}

/// A second wish to end is granted at once.
pub(super) fn end_at_once_when_asked_again() {
    tokio::spawn(async {
        if asked_to_end().await.is_ok() {
            telemetry::write_out();
            std::process::exit(130);
        }
    });
}
