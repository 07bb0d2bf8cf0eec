//! `gene-registry api-key` manages a user's keys through a server's control listener or, for
//! operators, directly in the database (`--direct`).

mod create;
mod key_client;
mod key_client_args;
mod key_errors;
mod list;
mod revoke;
mod rotate;
mod update;

use clap::{Args, Subcommand};

use super::command::{CommandResult, block_on};

#[derive(Debug, Args)]
pub(super) struct ApiKeyCommand {
    #[command(subcommand)]
    action: ApiKeyAction,
}

#[derive(Debug, Subcommand)]
enum ApiKeyAction {
    /// Create a key; the key itself is shown once, alone on standard output
    Create(create::Create),
    /// List keys, newest first
    List(list::List),
    /// Change the name, the rate limit or the expiry of a key
    Update(update::Update),
    /// Revoke a key; every replica rejects it within two seconds
    Revoke(revoke::Revoke),
    /// Replace a key with a new one that has the same settings; the old one works for a while longer
    Rotate(rotate::Rotate),
}

impl ApiKeyCommand {
    pub(super) fn run(self) -> CommandResult {
        block_on(async {
            match self.action {
                ApiKeyAction::Create(create) => create.run().await,
                ApiKeyAction::List(list) => list.run().await,
                ApiKeyAction::Update(update) => update.run().await,
                ApiKeyAction::Revoke(revoke) => revoke.run().await,
                ApiKeyAction::Rotate(rotate) => rotate.run().await,
            }
        })
    }
}
