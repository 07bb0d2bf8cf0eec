//! What the help and the man page of a command say beyond its arguments: notes, examples, exit
//! statuses, environment variables and files. Both read the same table.

mod account;
mod entries;
mod service;
mod text;

use clap::Command;

pub(super) use text::{HelpEntry, HelpText};

/// The text about a command, by its words after `gene-registry`.
pub(super) fn help_text(command: &str) -> Option<&'static HelpText> {
    all_texts().find(|text| text.command == command)
}

/// The texts about all commands.
pub(super) fn all_texts() -> impl Iterator<Item = &'static HelpText> {
    service::TEXTS.iter().chain(account::TEXTS)
}

/// Adds the texts to the help of a command and of all below it. `path` is its words after
/// `gene-registry`.
pub(super) fn with_help(command: Command, path: &str) -> Command {
    let command = match help_text(path) {
        Some(text) => command.after_help(text.after_help()),
        None => command,
    };
    command.mut_subcommands(|sub| {
        let path = subcommand_path(path, sub.get_name());
        with_help(sub, &path)
    })
}

/// The words after `gene-registry` of the subcommand `name` of the command `path`.
pub(super) fn subcommand_path(path: &str, name: &str) -> String {
    format!("{path} {name}").trim_start().to_owned()
}
