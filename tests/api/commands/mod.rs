//! The commands of the real binary.

mod account;
mod api_key;
mod canary;
mod cli_user;
mod config;
mod config_errors;
mod database;
mod demo;
mod error_messages;
mod help;
mod outputs;
mod own_views;
mod responder;
mod serve;
mod service_manager;
mod setup;
mod signals;
mod token;

use std::ffi::OsStr;
use std::time::Duration;

use crate::support::process::Launch;
use crate::support::scratch_folder;

/// The time limit of a command, with a margin for a loaded machine.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The binary, without the configuration and credentials of the user who runs the tests.
pub(crate) fn gene_registry<A: AsRef<OsStr>>(args: impl IntoIterator<Item = A>) -> Launch {
    let program = env!("CARGO_BIN_EXE_gene-registry");
    without_configuration(Launch::new("gene-registry", program).args(args))
}

/// Takes the configuration and credentials of the user who runs the tests out of an environment.
pub(crate) fn without_configuration(launch: Launch) -> Launch {
    let launch = launch.env("XDG_CONFIG_HOME", scratch_folder("config"));
    std::env::vars_os().map(|(name, _)| name).fold(launch, |launch, name| {
        let text = name.to_string_lossy();
        let configures = text.starts_with("GENE_REGISTRY")
            || ["DATABASE_URL", "REDIS_URL", "CONTROL_DATABASE_URL", "USAGE_DATABASE_URL"]
                .contains(&&*text);
        if configures { launch.env_remove(&name) } else { launch }
    })
}

/// The result of a command.
#[derive(Debug)]
pub(crate) struct CommandResult {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl CommandResult {
    #[track_caller]
    pub(crate) fn ok(self) -> Self {
        assert_eq!(self.code, 0, "{self:?}");
        self
    }

    /// Checks that the command failed with this status, an empty standard output, and a message
    /// that contains none of the secrets.
    #[track_caller]
    fn failed(self, code: i32, secrets: &[&str]) -> Self {
        assert_eq!((self.code, self.stdout.as_str()), (code, ""), "{self:?}");
        assert_ne!(self.stderr, "", "a failure is explained");
        for secret in secrets {
            assert!(!self.stderr.contains(secret), "{self:?}");
        }
        self
    }
}

/// Runs a command to its end.
pub(crate) async fn run(command: Launch) -> CommandResult {
    let process = command.start();
    let status = process.wait_exit(TIMEOUT).await;
    let code = status.code().unwrap_or_else(|| panic!("{status}: {}", process.report()));
    CommandResult { code, stdout: process.stdout(), stderr: process.stderr() }
}

/// Runs a command on a database.
async fn run_on<A: AsRef<OsStr>>(url: &str, args: impl IntoIterator<Item = A>) -> CommandResult {
    run(gene_registry(args).env("DATABASE_URL", url)).await
}
