//! The topology of the compose stack, by `tests/fleet/run`: three replicas of the program behind a
//! real HAProxy with the stack's own configuration.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;

use super::process::{Launch, Process, Signal, send};
use super::replica::Replica;
use super::scratch_folder;
use super::wait::until;

const START_TIMEOUT: Duration = Duration::from_secs(120);

/// A running fleet. Dropping it ends it.
pub(crate) struct ComposedFleet {
    process: Process,
    /// A client of the balancer.
    pub(crate) balancer: Replica,
    /// Clients of the replicas, by name.
    pub(crate) replicas: Vec<(String, Replica)>,
    /// The registry's URL as its owner.
    pub(crate) postgres_url: String,
    folder: PathBuf,
}

impl ComposedFleet {
    /// Starts a fleet; `env` configures the replicas by environment variables.
    pub(crate) async fn start(env: &[(&str, &str)]) -> Self {
        let ready = scratch_folder("fleet").join("ready.json");
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fleet/run");
        let mut launch = Launch::new("fleet", script)
            .args(["--no-install", "--binary", env!("CARGO_BIN_EXE_gene-registry"), "--ready-file"])
            .arg(&ready);
        for (name, value) in env {
            launch = launch.env(name, value);
        }
        let process = launch.start();
        let ready = until(START_TIMEOUT, "the fleet is ready", || async {
            assert!(process.is_running(), "the process did not start: {}", process.report());
            let text = std::fs::read_to_string(&ready).ok()?;
            Some(serde_json::from_str::<Value>(&text).unwrap())
        })
        .await;
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let replicas = ready["replicas"].as_array().unwrap().iter().map(|one| {
            (
                text(&one["name"]),
                Replica::external(&text(&one["base_url"]), &text(&one["ops_url"]), None),
            )
        });
        Self {
            balancer: Replica::external(&text(&ready["base_url"]), "no operations listener", None),
            replicas: replicas.collect(),
            postgres_url: text(&ready["postgres_url"]),
            folder: text(&ready["folder"]).into(),
            process,
        }
    }

    /// The process id of a replica, or of `haproxy`, `postgres` or `redis`.
    pub(crate) fn pid(&self, name: &str) -> u32 {
        let file = self.folder.join(format!("{name}.pid"));
        std::fs::read_to_string(file).unwrap().trim().parse().unwrap()
    }

    /// Terminates a replica; the fleet restarts it.
    pub(crate) fn terminate(&self, name: &str) {
        send(Signal::Term, &[self.pid(name)]);
    }

    /// The log of a program of the fleet.
    pub(crate) fn log(&self, name: &str) -> String {
        std::fs::read_to_string(self.folder.join(format!("{name}.log"))).unwrap()
    }
}

impl Drop for ComposedFleet {
    fn drop(&mut self) {
        // SIGTERM first, so that the servers release their shared memory; then SIGKILL.
        self.process.signal(Signal::Term);
        for _ in 0..1000 {
            if !self.process.is_running() {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}
