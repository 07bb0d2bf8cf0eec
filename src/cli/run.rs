//! Parses the arguments, runs the command and reports why it failed.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use super::command::{USAGE_ERROR, UsageError};
use super::config_file::ConfigFile;
use super::help::with_help;
use super::output::{notice, print, sanitize_lines, without_secrets};
use super::signals::end_at_signals;
use super::{
    api_key, canary, completions, config, demo, doctor, healthcheck, login, logout, maintain, man,
    migrate, openapi, seed, serve, setup, token, whoami,
};
use crate::net::HttpError;
use crate::ops::{error_chain, telemetry};

/// Read-only, caching JSON API over a public gene registry.
#[derive(Debug, Parser)]
#[command(name = "gene-registry", version, about)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a replica of the service
    Serve(serve::Serve),
    /// Run the service with nothing else installed: a sample registry in memory, no Redis
    Demo(demo::Demo),
    /// Print the SQL that prepares a Postgres server: roles, database, owner
    Setup(setup::Setup),
    /// Create the default schema in an empty Postgres, or bring it up to date
    Migrate(migrate::Migrate),
    /// Load the sample registry, or generated genes, into the default schema
    Seed(seed::Seed),
    /// Maintain the default schema: update ranks, prune the change log
    Maintain(maintain::Maintain),
    /// Print the OpenAPI document
    Openapi(openapi::Openapi),
    /// Check or show the configuration
    Config(config::ConfigCommand),
    /// Check all that a replica needs, as configured, and name the remedies
    Doctor(doctor::Doctor),
    /// Check whether a running replica is ready: exit status 0 or 1
    Healthcheck(ConfigFile),
    /// Show from outside whether a fleet that runs keeps its promises
    Canary(canary::Canary),
    /// Log in to a server, to manage your API keys there
    Login(login::LoginCommand),
    /// Log out, and remove the stored credentials
    Logout(logout::Logout),
    /// Show the user you are logged in as, at which server and until when
    Whoami(whoami::WhoAmICommand),
    /// Create, list, change, revoke and rotate API keys
    ApiKey(api_key::ApiKeyCommand),
    /// Create login tokens for the control listener; for operators
    Token(token::TokenCommand),
    /// Print the completion script of a shell
    Completions(completions::Completions),
    /// Print the man page, or write the man pages of all commands
    Man(man::ManCommand),
}

/// The command line with its help.
fn described() -> clap::Command {
    with_help(Cli::command(), "")
}

fn parse<A: Into<OsString> + Clone>(
    arguments: impl IntoIterator<Item = A>,
) -> Result<Cli, clap::Error> {
    let mut described = described();
    let matches = described.try_get_matches_from_mut(arguments)?;
    Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut described))
}

/// Parses the arguments and runs the command.
pub fn run() -> ExitCode {
    let _flush = FlushLog;
    if let Err(error) = end_at_signals() {
        return report_failure(&error);
    }
    let command = match parse(std::env::args_os()) {
        Ok(cli) => cli.command,
        Err(error) => return report_parse_error(&error),
    };
    let result = match command {
        Command::Serve(command) => command.run(),
        Command::Demo(command) => command.run(),
        Command::Setup(command) => command.run(),
        Command::Migrate(command) => command.run(),
        Command::Seed(command) => command.run(),
        Command::Maintain(command) => command.run(),
        Command::Openapi(command) => command.run(),
        Command::Config(command) => command.run(),
        Command::Doctor(command) => command.run(),
        Command::Healthcheck(file) => healthcheck::run(&file),
        Command::Canary(command) => command.run(),
        Command::Login(command) => command.run(),
        Command::Logout(command) => command.run(),
        Command::Whoami(command) => command.run(),
        Command::ApiKey(command) => command.run(),
        Command::Completions(command) => command.run(described()),
        Command::Man(command) => command.run(described()),
        Command::Token(command) => command.run(),
    };
    result.unwrap_or_else(|error| report_failure(&*error))
}

/// Writes the queued log lines when the command has ended, also by a panic.
struct FlushLog;

impl Drop for FlushLog {
    fn drop(&mut self) {
        telemetry::flush();
    }
}

/// Prints why the command failed.
fn report_failure(error: &(dyn std::error::Error + Send + Sync + 'static)) -> ExitCode {
    // Some causes quote a server or a database.
    notice(&sanitize_lines(&format!("gene-registry: {}", error_chain(error))));
    if is_untrusted(error) {
        notice(UNTRUSTED);
    }
    if error.is::<UsageError>() { USAGE_ERROR.into() } else { ExitCode::FAILURE }
}

/// The remedy if the certificate of a server or issuer is not trusted.
const UNTRUSTED: &str = "\
The certificate is not trusted. If you trust the authority that issued it, or the certificate itself,
set SSL_CERT_FILE to its PEM file: SSL_CERT_FILE=ca.pem gene-registry …";

fn is_untrusted(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut errors = std::iter::successors(Some(error), |error| error.source());
    let http_error = errors.find_map(|error| error.downcast_ref::<HttpError>());
    http_error.is_some_and(HttpError::is_untrusted)
}

/// Prints what is wrong with the arguments, or the requested help. Keys and tokens that were pasted
/// into the wrong argument are not repeated.
fn report_parse_error(error: &clap::Error) -> ExitCode {
    let message = error.render();
    if !error.use_stderr() {
        let printed = print(&message.ansi().to_string());
        return printed.map_or_else(|error| report_failure(&error), |()| ExitCode::SUCCESS);
    }
    // Without colours if the arguments hold control characters: colours are control characters too.
    let plain = message.to_string();
    let sanitized = sanitize_lines(&plain);
    let shown = if plain == sanitized { message.ansi().to_string() } else { sanitized };
    notice(without_secrets(&shown).trim_end_matches('\n'));
    USAGE_ERROR.into()
}

#[cfg(test)]
mod tests {
    use super::super::help::{help_text, subcommand_path};
    use super::*;

    /// The words of the call of `gene-registry` in an example: without variables before it, and
    /// without what a shell does with its input and output.
    fn words(example: &str) -> Vec<String> {
        let start = example.find("gene-registry ").expect(example);
        let call = &example[start..];
        let call = call.split([')', '|', '<', '>']).next().unwrap_or_default();
        // The number of a redirected stream is no argument.
        call.trim_end_matches(" 2").split_whitespace().map(str::to_owned).collect()
    }

    fn check_examples(command: &clap::Command, path: &str, found: &mut usize) {
        let text = help_text(path).unwrap_or_else(|| panic!("no text about '{path}'"));
        assert!(!text.examples.is_empty(), "{path}");
        for (example, _) in text.examples {
            *found += 1;
            let words = words(example);
            let is_of_command = words[1..].join(" ").starts_with(path);
            assert!(is_of_command, "'{example}' is no example of '{path}'");
            match parse(words) {
                Ok(_) => {}
                Err(error) if !error.use_stderr() => {}
                Err(error) => panic!("'{example}': {error}"),
            }
        }
        for sub in command.get_subcommands() {
            check_examples(sub, &subcommand_path(path, sub.get_name()), found);
        }
    }

    #[test]
    fn every_command_has_examples_that_it_accepts() {
        let mut found = 0;
        check_examples(&described(), "", &mut found);
        assert!(found > 40, "{found}");
    }

    #[test]
    fn every_text_is_about_a_command() {
        let root = described();
        for text in super::super::help::all_texts() {
            let mut command = Some(&root);
            for name in text.command.split_whitespace() {
                command = command.and_then(|command| command.find_subcommand(name));
            }
            assert!(command.is_some(), "'{}' is no command", text.command);
        }
    }
}
