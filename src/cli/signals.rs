//! Handles SIGINT (Ctrl-C) and SIGTERM.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::runtime::Builder;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::ops::telemetry;

/// The process id of the first process of a container.
const INIT: u32 = 1;

/// Exit statuses of a command that a signal has ended, as shells report them.
const INTERRUPTED: i32 = 130;
const TERMINATED: i32 = 143;

/// Whether the command handles the signals itself.
static HANDLED_BY_COMMAND: AtomicBool = AtomicBool::new(false);

/// Ends the process at SIGINT and SIGTERM, also as the first process of a container, for which the
/// kernel ignores signals without a handler. On a thread of its own, because a command may be
/// waiting for its input, its output or a database. From [`TerminationSignals::new`] on, the command
/// decides instead.
pub(super) fn end_at_signals() -> io::Result<()> {
    if std::process::id() != INIT {
        return Ok(());
    }
    let runtime = Builder::new_current_thread().enable_io().build()?;
    let mut signals = {
        let _entered = runtime.enter();
        Signals::new()?
    };
    let wait = async move {
        loop {
            let status = signals.received().await;
            if !HANDLED_BY_COMMAND.load(Ordering::Acquire) {
                telemetry::flush();
                std::process::exit(status);
            }
        }
    };
    std::thread::Builder::new().name("signals".to_owned()).spawn(move || runtime.block_on(wait))?;
    Ok(())
}

/// Receives SIGINT and SIGTERM for a command that ends in its own way. No signal is lost between two
/// calls.
pub(super) struct TerminationSignals(Signals);

impl TerminationSignals {
    /// From now on the signals no longer end the process.
    pub(super) fn new() -> io::Result<Self> {
        let signals = Signals::new()?;
        HANDLED_BY_COMMAND.store(true, Ordering::Release);
        Ok(Self(signals))
    }

    /// Completes when a signal has been received.
    pub(super) async fn received(&mut self) {
        self.0.received().await;
    }

    /// Ends the process at the next signal, with exit status 130.
    pub(super) fn exit_on_next(mut self) {
        tokio::spawn(async move {
            self.received().await;
            telemetry::flush();
            std::process::exit(INTERRUPTED);
        });
    }
}

struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    fn new() -> io::Result<Self> {
        let (interrupt, terminate) = (SignalKind::interrupt(), SignalKind::terminate());
        Ok(Self { interrupt: signal(interrupt)?, terminate: signal(terminate)? })
    }

    /// Waits for a signal. Returns the exit status of a command that it ends.
    async fn received(&mut self) -> i32 {
        tokio::select! {
            _ = self.interrupt.recv() => INTERRUPTED,
            _ = self.terminate.recv() => TERMINATED,
        }
    }
}
