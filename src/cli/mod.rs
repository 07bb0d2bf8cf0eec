//! The command line: one file a command.

mod api_key;
mod completions;
mod config;
mod demo;
mod healthcheck;
mod login;
mod logout;
mod maintain;
mod man;
mod migrate;
mod openapi;
mod seed;
mod serve;
mod session;
mod show;
mod signals;
mod terminal;
mod token;
mod whoami;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};

use self::show::{notice, print};
use crate::config::{InvalidConfig, LoadedConfig};
use crate::net::HttpError;
use crate::ops::{error_chain, telemetry};

const EXIT_STATUS: &str = "\
Exit status:
  0  it was done
  1  it failed; the message says why
  2  nothing was done, for it was not clear what was wanted: a wrong argument, a prefix that fits no
     key or several, no server named
  130  it was interrupted before its end; serve and demo: for the second time

Colours are used on terminals alone, and never with NO_COLOR set.";

/// The exit status when nothing was done because the wish was not clear.
const USAGE_ERROR: u8 = 2;

/// Read-only, caching JSON API over a public gene registry.
#[derive(Debug, Parser)]
#[command(name = "gene-registry", version, about, after_help = EXIT_STATUS)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a replica of the service
    Serve(serve::Serve),
    /// Run the service with nothing else installed: a sample registry in memory, no Redis
    Demo(demo::Demo),
    /// Create the default schema in an empty Postgres, or bring it up to date
    Migrate(migrate::Migrate),
    /// Load the sample registry, or generated genes, into the default schema
    Seed(seed::Seed),
    /// Keep the default schema in order: ranks, and the change log's length
    Maintain(maintain::Maintain),
    /// Print the OpenAPI document
    Openapi(openapi::Openapi),
    /// Check or show the configuration
    Config(config::ConfigCommand),
    /// Ask a running replica whether it is ready: exit status 0 or 1
    Healthcheck(healthcheck::Healthcheck),
    /// Log in to a server, to manage your API keys there
    Login(login::LoginCommand),
    /// Log out, and forget the credentials
    Logout(logout::Logout),
    /// Show who you are to which server, and until when
    Whoami(whoami::WhoAmICommand),
    /// Create, list, revoke and rotate API keys
    ApiKey(api_key::ApiKeyCommand),
    /// Make login tokens for the control listener, for operators
    Token(token::TokenCommand),
    /// Print completions for a shell
    Completions(completions::Completions),
    /// Print the man page, or write those of all commands
    Man(man::ManCommand),
}

/// Names the configuration file.
const CONFIG_FILE: &str = "GENE_REGISTRY_CONFIG";

/// Where the configuration file is.
#[derive(Debug, Args)]
struct ConfigFile {
    /// Configuration file (TOML); keys it leaves out have their defaults
    #[arg(long, value_name = "FILE", env = CONFIG_FILE)]
    config: Option<PathBuf>,
}

impl ConfigFile {
    fn read(&self) -> Result<LoadedConfig, InvalidConfig> {
        LoadedConfig::read(self.path())
    }

    fn path(&self) -> Option<&Path> {
        self.config.as_deref()
    }
}

/// Why a command failed.
type Error = Box<dyn std::error::Error + Send + Sync>;

/// What a command ends with: an exit status, or an error to show.
type Outcome = Result<ExitCode, Error>;

/// Nothing was done, for it was not clear what was wanted. Holds no secret, also none that was
/// typed by mistake.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct UsageError(String);

impl UsageError {
    fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

/// Parses the arguments and runs the command.
pub fn run() -> ExitCode {
    let _flush = FlushLog;
    let command = match Cli::try_parse() {
        Ok(cli) => cli.command,
        Err(error) => return misunderstood(&error),
    };
    let outcome = match command {
        Command::Serve(command) => command.run(),
        Command::Demo(command) => command.run(),
        Command::Migrate(command) => command.run(),
        Command::Seed(command) => command.run(),
        Command::Maintain(command) => command.run(),
        Command::Openapi(command) => command.run(),
        Command::Config(command) => command.run(),
        Command::Healthcheck(command) => command.run(),
        Command::Login(command) => command.run(),
        Command::Logout(command) => command.run(),
        Command::Whoami(command) => command.run(),
        Command::ApiKey(command) => command.run(),
        Command::Completions(command) => command.run(),
        Command::Man(command) => command.run(),
        Command::Token(command) => command.run(),
    };
    outcome.unwrap_or_else(|error| failed(&*error))
}

/// Writes what the log still holds when the command has ended, also by a panic.
struct FlushLog;

impl Drop for FlushLog {
    fn drop(&mut self) {
        telemetry::flush();
    }
}

/// Says why the command failed.
fn failed(error: &(dyn std::error::Error + Send + Sync + 'static)) -> ExitCode {
    notice(&format!("gene-registry: {}", error_chain(error)));
    if is_untrusted(error) {
        notice(UNTRUSTED);
    }
    if error.is::<UsageError>() { USAGE_ERROR.into() } else { ExitCode::FAILURE }
}

/// What can be done about a server or issuer whose certificate is not trusted.
const UNTRUSTED: &str = "\
The certificate is not trusted. If you know the authority that made it, or it is the server's own,
name its PEM file by SSL_CERT_FILE: SSL_CERT_FILE=ca.pem gene-registry …";

fn is_untrusted(error: &(dyn std::error::Error + 'static)) -> bool {
    let of_web = |error: &&(dyn std::error::Error + 'static)| error.is::<HttpError>();
    let mut errors = std::iter::successors(Some(error), |error| error.source());
    let found = errors.find(of_web).and_then(|error| error.downcast_ref::<HttpError>());
    found.is_some_and(HttpError::is_untrusted)
}

/// Says what is wrong with the arguments, or shows the help that was asked for. People paste keys
/// and tokens where they don't belong; those are not repeated.
fn misunderstood(error: &clap::Error) -> ExitCode {
    let message = error.render();
    if !error.use_stderr() {
        let printed = print(&message.ansi().to_string());
        return printed.map_or_else(|error| failed(&error), |()| ExitCode::SUCCESS);
    }
    // Colours are controls too: there are none where what was typed holds controls of its own.
    let sanitize = show::sanitize_lines(&message.to_string());
    let shown = sanitize.unwrap_or_else(|| message.ansi().to_string());
    notice(show::without_secrets(&shown).trim_end_matches('\n'));
    USAGE_ERROR.into()
}

/// Runs a command's asynchronous part.
fn block_on<F: Future<Output = Outcome>>(work: F) -> Outcome {
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(work)
}
