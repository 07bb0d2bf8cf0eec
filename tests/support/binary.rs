//! The program as a replica in a process of its own, for tests of its log.

use std::os::fd::OwnedFd;
use std::process::ExitStatus;
use std::time::Duration;

use serde_json::Value;

use super::hosts::Hosts;
use super::process::{Launch, Process, Signal};
use super::replica::Replica;
use super::scratch_folder;
use super::wait::{eventually, until};

const NAME: &str = "gene-registry";
pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_gene-registry");

const START_TIMEOUT: Duration = Duration::from_secs(30);

const LOG_TIMEOUT: Duration = Duration::from_secs(10);

/// A running `gene-registry serve`. Dropping it ends it.
pub(crate) struct ReplicaProcess {
    process: Process,
    /// A client for it.
    pub(crate) replica: Replica,
}

impl ReplicaProcess {
    /// Starts one on free ports; `env` configures it by environment variables.
    pub(crate) async fn start(env: &[(&str, &str)]) -> Self {
        Self::start_process(Launch::new(NAME, PROGRAM), env).await
    }

    /// Like [`start`](Self::start), with the host names of `hosts`.
    pub(crate) async fn start_with(hosts: &Hosts, env: &[(&str, &str)]) -> Self {
        Self::start_process(hosts.launch(NAME, PROGRAM), env).await
    }

    /// Like [`start`](Self::start), with another build of the program.
    pub(crate) async fn start_program(program: &str, env: &[(&str, &str)]) -> Self {
        Self::start_process(Launch::new(NAME, program), env).await
    }

    /// Like [`start`](Self::start), with at most this many open files.
    pub(crate) async fn start_with_files(files: usize, env: &[(&str, &str)]) -> Self {
        let launch = Launch::new(NAME, "prlimit").arg(format!("--nofile={files}")).arg(PROGRAM);
        Self::start_process(launch, env).await
    }

    /// Like [`start`](Self::start), with standard output and standard error to `target`.
    pub(crate) async fn start_writing_to(target: OwnedFd, env: &[(&str, &str)]) -> Self {
        let launch = Launch::new(NAME, PROGRAM).stdout_to(target.try_clone().unwrap());
        Self::start_process(launch.stderr_to(target), env).await
    }

    async fn start_process(launch: Launch, env: &[(&str, &str)]) -> Self {
        let ready = scratch_folder("ready").join("ready.json");
        let mut launch = launch
            .args(["serve", "--ready-file"])
            .arg(&ready)
            .env("GENE_REGISTRY__SERVER__BIND", "127.0.0.1:0")
            .env("GENE_REGISTRY__OPS__BIND", "127.0.0.1:0")
            // A loaded machine takes longer.
            .env("GENE_REGISTRY__UPSTREAM__WAIT_MS", "1500")
            .env("GENE_REGISTRY__UPSTREAM__CONNECT_MS", "1500")
            .env("GENE_REGISTRY__UPSTREAM__QUERY_MS", "5000")
            .env("GENE_REGISTRY__UPSTREAM__DEADLINE_MS", "9000")
            .env("GENE_REGISTRY__SHED__WAIT_MS", "5000")
            .env("GENE_REGISTRY__SERVER__REQUEST_TIMEOUT_MS", "30000")
            .env_remove("GENE_REGISTRY_CONFIG")
            .env_remove("GENE_REGISTRY_NOT_RUN")
            .env_remove("CONTROL_DATABASE_URL")
            .env_remove("USAGE_DATABASE_URL")
            .env_remove("REDIS_URL");
        for (name, value) in env {
            launch = launch.env(name, value);
        }
        let process = launch.start();
        let addresses = until(START_TIMEOUT, "the replica listens", || async {
            assert!(process.is_running(), "the process did not start: {}", process.report());
            let text = std::fs::read_to_string(&ready).ok()?;
            Some(serde_json::from_str::<Value>(&text).unwrap())
        })
        .await;
        let address = |name: &str| addresses[name].as_str().unwrap().to_owned();
        let replica = Replica::external(
            &address("base_url"),
            &address("ops_url"),
            addresses["control_url"].as_str(),
        );
        Self { process, replica }
    }

    /// Its resident memory, in bytes.
    pub(crate) fn memory(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.pid()));
        let status = status.unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.split_whitespace().next().unwrap().parse::<u64>().unwrap() * 1024
    }

    /// Everything it has logged.
    pub(crate) fn log(&self) -> String {
        self.process.stderr()
    }

    /// Kills it.
    pub(crate) fn kill(&self) {
        self.process.signal(Signal::Kill);
    }

    /// Ends it; returns its complete log.
    pub(crate) async fn into_log(self) -> String {
        self.process.signal(Signal::Term);
        self.process.wait_exit(START_TIMEOUT).await;
        self.log()
    }

    /// Sends SIGTERM; the exit status, or `None` if it still runs after `bound`.
    pub(crate) async fn terminated_within(&self, bound: Duration) -> Option<ExitStatus> {
        self.process.signal(Signal::Term);
        self.process.exited_within(bound).await
    }

    /// How many lines of the log contain all of these words.
    pub(crate) fn lines_with(&self, words: &[&str]) -> usize {
        let has_all = |line: &&str| words.iter().all(|word| line.contains(word));
        self.log().lines().filter(has_all).count()
    }

    /// Waits for a line with all of these words, which may be written a moment after its cause;
    /// panics if there is more than one.
    pub(crate) async fn wait_for_single_line(&self, words: &[&str]) {
        eventually(LOG_TIMEOUT, &format!("the log contains {words:?}"), || async {
            self.lines_with(words) > 0
        })
        .await;
        assert_eq!(self.lines_with(words), 1, "{}", self.log());
    }
}
