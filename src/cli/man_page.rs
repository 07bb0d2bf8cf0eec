//! Writes a command's man page: its arguments as clap knows them, and its [`HelpText`].

use clap::{Arg, Command};
use roff::{Inline, Roff, bold, italic, roman};

use super::help::{HelpEntry, HelpText, help_text};

/// The page of a command that has been built; `path` is its words after `gene-registry`.
pub(super) fn man_page(command: &Command, path: &str, see_also: &[String]) -> String {
    let mut page = Roff::new();
    let name = page_name(command);
    let source = format!("gene-registry {}", env!("CARGO_PKG_VERSION"));
    // The date is a space: the crate drops empty arguments. A program built again is the same.
    page.control("TH", [&*name.to_uppercase(), "1", " ", &source, "Gene Registry"]);
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    let about = about.trim_end_matches('.');
    page.control("SH", ["NAME"]).text([roman(format!("{name} - {about}"))]);
    page.control("SH", ["SYNOPSIS"]).text(synopsis(command));
    page.control("SH", ["DESCRIPTION"]).text([roman(format!("{about}."))]);
    let text = help_text(path);
    for paragraph in text.map(|text| text.notes).unwrap_or_default().split_terminator("\n\n") {
        page.control("PP", []).text([roman(paragraph)]);
    }
    if command.has_subcommands() {
        page.control("SH", ["COMMANDS"]);
        for sub in command.get_subcommands() {
            let about = sub.get_about().map(ToString::to_string).unwrap_or_default();
            page.control("TP", []).text([bold(page_name(sub)), roman("(1)")]);
            page.text([roman(format!("{about}."))]);
        }
    }
    page.control("SH", ["OPTIONS"]);
    for argument in command.get_arguments() {
        page.control("TP", []).text(term(argument)).text([roman(explanation(argument))]);
    }
    if let Some(text) = text {
        help_sections(&mut page, text);
    }
    page.control("SH", ["SEE ALSO"]).text(references(see_also));
    page.render()
}

/// The name of a command's page, without its section.
pub(super) fn page_name(command: &Command) -> String {
    command.get_display_name().unwrap_or(command.get_name()).to_owned()
}

/// The sections whose contents clap does not know.
fn help_sections(page: &mut Roff, text: &HelpText) {
    entries(page, "EXIT STATUS", &[text.exit_statuses]);
    entries(page, "ENVIRONMENT", text.environment);
    entries(page, "FILES", text.files);
    page.control("SH", ["EXAMPLES"]);
    for (line, purpose) in text.examples {
        page.control("PP", []).text([roman(format!("{purpose}:"))]);
        page.control("PP", []).control("RS", ["4"]).control("nf", []);
        page.text([bold(*line)]).control("fi", []).control("RE", []);
    }
}

/// A section of terms and explanations, if there are any.
fn entries(page: &mut Roff, heading: &str, groups: &[&[HelpEntry]]) {
    if groups.is_empty() {
        return;
    }
    page.control("SH", [heading]);
    for (term, explanation) in groups.iter().copied().flatten() {
        page.control("TP", []).text([bold(*term)]).text([roman(*explanation)]);
    }
}

/// The command with its arguments; `[…]` is optional.
fn synopsis(command: &Command) -> Vec<Inline> {
    let name = command.get_bin_name().unwrap_or(command.get_name());
    let mut line = vec![bold(name)];
    let is_listed = |argument: &&Arg| !["help", "version"].contains(&argument.get_id().as_str());
    for argument in command.get_arguments().filter(is_listed) {
        let (open, close) = if argument.is_required_set() { ("", "") } else { ("[", "]") };
        line.push(roman(format!(" {open}")));
        line.extend(term(argument));
        line.push(roman(close));
    }
    if command.has_subcommands() {
        line.extend([roman(" "), italic("COMMAND")]);
    }
    line
}

/// An argument with its value: `--name NAME`.
fn term(argument: &Arg) -> Vec<Inline> {
    let value = argument.get_value_names().map(|names| names.join(" ")).unwrap_or_default();
    if argument.is_positional() {
        return vec![italic(value)];
    }
    let long = argument.get_long().unwrap_or_default();
    let mut line = vec![bold(format!("--{long}"))];
    if let Some(short) = argument.get_short() {
        line.splice(0..0, [bold(format!("-{short}")), roman(", ")]);
    }
    if let Some(count) = argument.get_num_args().filter(|count| count.takes_values()) {
        let (open, close) = if count.min_values() == 0 { (" [", "]") } else { (" ", "") };
        line.extend([roman(open), italic(value), roman(close)]);
    }
    line
}

/// What an argument does, which values it takes, its default and its environment variable.
fn explanation(argument: &Arg) -> String {
    let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
    let mut text = format!("{help}.");
    let values = argument.get_possible_values();
    let takes_values = argument.get_num_args().is_some_and(|count| count.takes_values());
    if takes_values && !values.is_empty() {
        let values: Vec<_> = values.iter().map(|value| value.get_name()).collect();
        text.push_str(&format!(" Values: {}.", values.join(", ")));
    }
    if takes_values && let [default] = argument.get_default_values() {
        text.push_str(&format!(" Default: {}.", default.to_string_lossy()));
    }
    if let Some(variable) = argument.get_env() {
        text.push_str(&format!(" Environment variable: {}.", variable.to_string_lossy()));
    }
    text
}

fn references(pages: &[String]) -> Vec<Inline> {
    let mut line = Vec::new();
    for (number, page) in pages.iter().enumerate() {
        line.extend([roman(if number == 0 { "" } else { ", " }), bold(page), roman("(1)")]);
    }
    line
}
