//! A user at the command line: with a configuration folder of their own, standard input, and, if a
//! test needs one, a terminal.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tokio::fs::File;
use tokio::io::AsyncWriteExt;

use super::{CommandResult, TIMEOUT, gene_registry, run};
use crate::support::process::{Launch, Process};
use crate::support::scratch_folder;
use crate::support::wait::until;

const PROGRAM: &str = env!("CARGO_BIN_EXE_gene-registry");

/// A user with a configuration folder. A clone shares the folder.
#[derive(Debug, Clone)]
pub(super) struct CliUser {
    pub(super) folder: PathBuf,
}

impl CliUser {
    pub(super) fn new() -> Self {
        Self { folder: scratch_folder("person") }
    }

    /// A command in this user's environment.
    pub(super) fn command(&self, args: &[&str]) -> Launch {
        self.in_environment(gene_registry(args))
    }

    pub(super) async fn run(&self, args: &[&str]) -> CommandResult {
        run(self.command(args)).await
    }

    /// Runs a command with this text on its standard input.
    pub(super) async fn run_with_input(&self, args: &[&str], input: &str) -> CommandResult {
        run(self.command_with_input(args, input)).await
    }

    /// Like [`run_with_input`](Self::run_with_input), but does not wait for the end.
    pub(super) fn begin_with_input(&self, args: &[&str], input: &str) -> Process {
        self.command_with_input(args, input).start()
    }

    /// A command with this text on its standard input, not started.
    pub(super) fn command_with_input(&self, args: &[&str], input: &str) -> Launch {
        let file = scratch_folder("input").join("input");
        std::fs::write(&file, input).unwrap();
        let script = r#"input=$1; shift; exec "$@" <"$input""#;
        let launch = Launch::new("gene-registry", "sh").args(["-c", script, "sh"]).arg(&file);
        self.in_environment(launch.arg(PROGRAM).args(args))
    }

    /// Starts a command at a terminal of its own.
    pub(super) async fn at_terminal(&self, args: &[&str]) -> AtTerminal {
        self.terminal(args, |launch| launch.env_remove("NO_COLOR")).await
    }

    /// Like [`at_terminal`](Self::at_terminal), with `NO_COLOR` set.
    pub(super) async fn at_plain_terminal(&self, args: &[&str]) -> AtTerminal {
        self.terminal(args, |launch| launch.env("NO_COLOR", "1")).await
    }

    /// Like [`at_terminal`](Self::at_terminal), at a terminal of this width.
    pub(super) async fn at_terminal_of(&self, columns: usize, args: &[&str]) -> AtTerminal {
        let script = format!("stty cols {columns}; exec {PROGRAM} {}", args.join(" "));
        self.terminal_running(&["sh", "-c", &script], |launch| launch.env_remove("NO_COLOR")).await
    }

    async fn terminal(&self, args: &[&str], with: impl FnOnce(Launch) -> Launch) -> AtTerminal {
        self.terminal_running(&[&[PROGRAM], args].concat(), with).await
    }

    async fn terminal_running(
        &self,
        command: &[&str],
        with: impl FnOnce(Launch) -> Launch,
    ) -> AtTerminal {
        let fifo = scratch_folder("terminal").join("input");
        let made = std::process::Command::new("mkfifo").arg(&fifo).status().unwrap();
        assert!(made.success());
        let quoted: Vec<_> = command.iter().map(|word| format!("'{word}'")).collect();
        let script = r#"exec script -qec "$1" /dev/null <"$2""#;
        let launch = Launch::new("terminal", "sh")
            .args(["-c", script, "sh", &quoted.join(" ")])
            .arg(&fifo)
            .env("TERM", "xterm");
        let process = with(self.in_environment(launch)).start();
        // Opening blocks until the other side reads.
        let input = File::options().write(true).open(&fifo).await.unwrap();
        AtTerminal { process, input }
    }

    /// Gives a program this user's environment.
    pub(super) fn in_environment(&self, launch: Launch) -> Launch {
        launch
            .env("HOME", &self.folder)
            .env("XDG_CONFIG_HOME", self.folder.join("config"))
            .env_remove("DATABASE_URL")
    }

    pub(super) fn credentials_path(&self) -> PathBuf {
        self.folder.join("config/gene-registry/credentials.json")
    }

    /// The content of the file of credentials.
    pub(super) fn credentials(&self) -> Value {
        let text = std::fs::read_to_string(self.credentials_path()).unwrap();
        serde_json::from_str(&text).unwrap()
    }

    /// Replaces the file of credentials.
    pub(super) fn set_credentials(&self, text: &str) {
        std::fs::create_dir_all(self.credentials_path().parent().unwrap()).unwrap();
        std::fs::write(self.credentials_path(), text).unwrap();
    }
}

/// The mode of a file or folder.
pub(super) fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

/// A command that runs at a terminal.
pub(super) struct AtTerminal {
    process: Process,
    input: File,
}

impl AtTerminal {
    pub(super) fn process(&self) -> &Process {
        &self.process
    }

    /// Everything that the terminal has shown.
    pub(super) fn output(&self) -> String {
        self.process.stdout()
    }

    /// Waits until the terminal shows this text.
    pub(super) async fn wait_for_text(&self, text: &str) {
        until(TIMEOUT, &format!("the terminal shows {text:?}"), || async {
            // In this order: the text may be the last output before the end.
            let is_running = self.process.is_running();
            let output = self.output();
            assert!(is_running || output.contains(text), "{output}");
            output.contains(text).then_some(())
        })
        .await;
    }

    /// Types a line.
    pub(super) async fn type_line(&mut self, line: &str) {
        self.input.write_all(format!("{line}\n").as_bytes()).await.unwrap();
        self.input.flush().await.unwrap();
    }

    /// Waits for the end; returns the exit status and everything that was shown.
    pub(super) async fn wait_for_end(self) -> (i32, String) {
        let status = self.process.wait_exit(TIMEOUT).await;
        (status.code().unwrap(), self.output())
    }
}
