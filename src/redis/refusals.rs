//! Logs which commands a server refuses because its user lacks a right: once when that begins, and once
//! when it ends.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use redis::{Arg, Cmd, Pipeline};

use super::failure::{Replies, lacks_right};
use super::scripts::script_name;
use crate::sync::lock;

/// The refused commands of one server.
#[derive(Debug)]
pub(super) struct RefusalLog {
    /// As the log calls the server.
    store: String,
    refused: Mutex<BTreeSet<String>>,
    /// Whether there are any. Read after every call; the lock is taken only to change something.
    has_any: AtomicBool,
}

impl RefusalLog {
    pub(super) fn new(store: &str) -> Self {
        let (refused, has_any) = (Mutex::default(), AtomicBool::new(false));
        Self { store: store.to_owned(), refused, has_any }
    }

    /// Records the replies to `commands`, in their order.
    pub(super) fn record(&self, commands: &Pipeline, replies: &Replies) {
        let is_refused = |reply: &_| matches!(reply, Err(error) if lacks_right(error));
        if !self.has_any.load(Ordering::Relaxed) && !replies.iter().any(is_refused) {
            return;
        }
        let (store, mut refused) = (&*self.store, lock(&self.refused));
        for (command, reply) in commands.cmd_iter().zip(replies) {
            let command = name(command);
            match reply {
                Err(reason) if lacks_right(reason) && refused.insert(command.clone()) => {
                    tracing::warn!(store, command, %reason, "redis refuses a command");
                }
                Ok(_) if refused.remove(&command) => {
                    tracing::info!(store, command, "redis accepts the command again");
                }
                _ => {}
            }
        }
        self.has_any.store(!refused.is_empty(), Ordering::Relaxed);
    }
}

/// The name of the command, or of its script.
fn name(command: &Cmd) -> String {
    let mut words = command.args_iter().filter_map(|argument| match argument {
        Arg::Simple(word) => Some(word),
        _ => None,
    });
    let first = String::from_utf8_lossy(words.next().unwrap_or_default()).into_owned();
    match words.next().and_then(script_name) {
        Some(script) if first.starts_with("EVAL") => format!("script {script}"),
        _ => first,
    }
}
