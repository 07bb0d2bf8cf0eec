//! `gene-registry completions` prints the completion script of a shell.

use std::process::ExitCode;

use clap::{Args, Command};
use clap_complete::Shell;

use super::command::CommandResult;
use super::output::print;

#[derive(Debug, Args)]
pub(super) struct Completions {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

impl Completions {
    pub(super) fn run(self, mut command: Command) -> CommandResult {
        let mut text = Vec::new();
        let name = command.get_name().to_owned();
        clap_complete::generate(self.shell, &mut command, name, &mut text);
        let mut text = String::from_utf8(text)?;
        if self.shell == Shell::Bash {
            // The generator escapes a program's hyphen in two ways, which do not match.
            text = text.replace("gene__subcmd__registry", "gene__registry");
        }
        print(&text)?;
        Ok(ExitCode::SUCCESS)
    }
}
