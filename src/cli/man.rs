//! `gene-registry man` prints or writes the man pages.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Command};
use clap_mangen::Man;

use super::command::CommandResult;
use super::output::{notice, print};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  gene-registry man | man -l -
  gene-registry man --dir ~/.local/share/man/man1")]
pub(super) struct ManCommand {
    /// Write the pages of all commands into this folder, created if it does not exist; without this
    /// option, print the main page
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

impl ManCommand {
    pub(super) fn run(self, command: Command) -> CommandResult {
        if let Some(folder) = self.dir {
            let failed = |error| format!("cannot write to {}: {error}", folder.display());
            std::fs::create_dir_all(&folder).map_err(failed)?;
            clap_mangen::generate_to(command, &folder).map_err(failed)?;
            notice(&format!("Wrote the man pages to {}.", folder.display()));
        } else {
            let mut page = Vec::new();
            // As `generate_to` does.
            Man::new(command.disable_help_subcommand(true)).render(&mut page)?;
            print(&String::from_utf8(page)?)?;
        }
        Ok(ExitCode::SUCCESS)
    }
}
