//! The command line: one file a command.

mod api_key;
mod config;
mod demo;
mod healthcheck;
mod maintain;
mod migrate;
mod openapi;
mod seed;
mod serve;
mod signals;
mod token;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};

use crate::config::{InvalidConfig, Loaded};

/// Read-only, caching JSON API over a public gene registry.
#[derive(Debug, Parser)]
#[command(name = "gene-registry", version, about)]
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
    /// Create, list and revoke API keys
    ApiKey(api_key::ApiKeyCommand),
    /// Make login tokens for the control listener, for operators
    Token(token::TokenCommand),
}

/// Where the configuration file is.
#[derive(Debug, Args)]
struct ConfigFile {
    /// Configuration file (TOML); keys it leaves out have their defaults
    #[arg(long, value_name = "FILE", env = "GENE_REGISTRY_CONFIG")]
    config: Option<PathBuf>,
}

impl ConfigFile {
    fn read(&self) -> Result<Loaded, InvalidConfig> {
        Loaded::read(self.config.as_deref())
    }
}

/// What a command ends with: an exit status, or an error to show.
type Outcome = Result<ExitCode, Box<dyn std::error::Error + Send + Sync>>;

/// Parses the arguments and runs the command.
pub fn run() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Serve(command) => command.run(),
        Command::Demo(command) => command.run(),
        Command::Migrate(command) => command.run(),
        Command::Seed(command) => command.run(),
        Command::Maintain(command) => command.run(),
        Command::Openapi(command) => command.run(),
        Command::Config(command) => command.run(),
        Command::Healthcheck(command) => command.run(),
        Command::ApiKey(command) => command.run(),
        Command::Token(command) => command.run(),
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("gene-registry: {}", with_sources(&*error));
        ExitCode::FAILURE
    })
}

fn with_sources(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let next = error.to_string();
        if !text.contains(&next) {
            text.push_str(": ");
            text.push_str(&next);
        }
        source = error.source();
    }
    text
}

/// Runs a command's asynchronous part.
fn block_on<F: Future<Output = Outcome>>(work: F) -> Outcome {
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(work)
}
