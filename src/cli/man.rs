//! `gene-registry man`

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, CommandFactory};
use clap_mangen::Man;

use super::show::{notice, print};
use super::{Cli, Outcome};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  gene-registry man | man -l -
  gene-registry man --dir ~/.local/share/man/man1")]
pub(super) struct ManCommand {
    /// Write the pages of all commands into this folder, which is made where it is missing;
    /// without it, the first page goes to standard output
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

impl ManCommand {
    pub(super) fn run(self) -> Outcome {
        let command = Cli::command();
        if let Some(folder) = self.dir {
            let failed = |error| format!("{}: {error}", folder.display());
            std::fs::create_dir_all(&folder).map_err(failed)?;
            clap_mangen::generate_to(command, &folder).map_err(failed)?;
            notice(&format!("The pages are in {}.", folder.display()));
        } else {
            let mut page = Vec::new();
            // As `generate_to` does it.
            Man::new(command.disable_help_subcommand(true)).render(&mut page)?;
            print(&String::from_utf8(page)?)?;
        }
        Ok(ExitCode::SUCCESS)
    }
}
