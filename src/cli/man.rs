//! `gene-registry man` prints or writes the man pages.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Command};

use super::command::CommandResult;
use super::help::subcommand_path;
use super::man_page::{man_page, page_name};
use super::output::{notice, print};
use crate::net::io_reason;

#[derive(Debug, Args)]
pub(super) struct ManCommand {
    /// Write the pages of all commands into this folder, created if it does not exist; without this
    /// option, print the main page
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

impl ManCommand {
    pub(super) fn run(self, command: Command) -> CommandResult {
        let pages = man_pages(command);
        if let Some(folder) = self.dir {
            write_pages(&folder, &pages).map_err(|error| {
                format!("cannot write to {}: {}", folder.display(), io_reason(&error))
            })?;
            notice(&format!("Wrote the man pages to {}.", folder.display()));
        } else {
            print(&pages[0].1)?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn write_pages(folder: &Path, pages: &[(String, String)]) -> std::io::Result<()> {
    std::fs::create_dir_all(folder)?;
    for (name, page) in pages {
        std::fs::write(folder.join(format!("{name}.1")), page)?;
    }
    Ok(())
}

/// The names and texts of the pages of all commands, the main page first.
fn man_pages(command: Command) -> Vec<(String, String)> {
    // `gene-registry help` has no page: it shows what the others do.
    let mut command = command.disable_help_subcommand(true);
    command.build();
    let mut pages = Vec::new();
    add_pages(&mut pages, &command, "", &[]);
    pages
}

/// Adds the page of a command and those of all below it. `relatives` are the pages of the command
/// above it and of the other commands there.
fn add_pages(
    pages: &mut Vec<(String, String)>,
    command: &Command,
    path: &str,
    relatives: &[String],
) {
    let name = page_name(command);
    let below: Vec<_> = command.get_subcommands().map(page_name).collect();
    let others = relatives.iter().filter(|page| **page != name);
    let see_also: Vec<_> = others.chain(&below).cloned().collect();
    pages.push((name.clone(), man_page(command, path, &see_also)));
    let family: Vec<_> = [name].into_iter().chain(below).collect();
    for sub in command.get_subcommands() {
        add_pages(pages, sub, &subcommand_path(path, sub.get_name()), &family);
    }
}
