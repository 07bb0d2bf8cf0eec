//! `gene-registry seed` loads the sample registry, or generated genes, into an empty schema.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};

use super::command::{CommandError, CommandResult, block_on};
use super::config_file::ConfigFile;
use super::database::connect;
use super::key_file::read_key;
use super::output::{notice, print, print_secret, sanitize_lines};
use super::system_user::system_user;
use crate::default_schema::generate;
use crate::default_schema::seed::{EmptyRegistry, LoadedRegistry, SeedError, vacuum};
use crate::keys::{ApiKey, AuditLog, KeySpec, NewKey, READ_SCOPE, insert_key};
use crate::ops::{error_chain, telemetry};
use crate::registry::{Catalogue, Timestamp};

/// Requests per minute of the key that is printed.
const RATE_LIMIT: u32 = 5000;

const OWNER: &str = "sample-registry";

#[derive(Debug, Args)]
pub(super) struct Seed {
    #[command(flatten)]
    config: ConfigFile,
    /// Load this many generated genes instead of the sample registry
    #[arg(long, value_name = "N")]
    genes: Option<u64>,
    /// Seed of the generated genes: the same number gives the same genes
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// Use the API key in this file (its first line that is neither empty nor a comment) instead of
    /// creating one; the file must exist, and is not changed
    #[arg(long, value_name = "F")]
    key_file: Option<PathBuf>,
}

impl Seed {
    pub(super) fn run(self) -> CommandResult {
        let config = self.config.read()?.config;
        telemetry::init(&config.log)?;
        // Read before anything is changed.
        let given = self.key_file.as_deref().map(read_key).transpose()?;
        block_on(async {
            let mut client = connect(&config.upstream).await?;
            let Some(registry) = EmptyRegistry::lock(&mut client).await? else {
                print("The registry already has genes; nothing was changed.\n")?;
                return Ok(ExitCode::SUCCESS);
            };
            let is_given = given.is_some();
            let key = given.map_or_else(ApiKey::generate, Ok)?;
            insert_key(registry.transaction(), &key, &new_key()).await?;
            // A given key may be a secret, and outputs of containers are kept. A new one is printed before
            // loading: a registry whose only key was lost would be unusable.
            if !is_given {
                print_secret(key.expose())
                    .map_err(|error| format!("{error}; nothing was loaded"))?;
            }
            let filled = fill(registry, self.genes, self.seed).await;
            let LoadedRegistry { genes, evaluations } = filled.map_err(with_key_state)?;
            AuditLog::new(system_user(), "seed").created(key.prefix(), OWNER);
            notice(&format!("Loaded {genes} genes with {evaluations} evaluations."));
            if let Err(error) = vacuum(&client).await {
                let error = error_chain(&error);
                notice(&sanitize_lines(&format!("warning: cannot vacuum the tables: {error}")));
            }
            Ok(ExitCode::SUCCESS)
        })
    }
}

/// Adds to the error whether the key works.
fn with_key_state(error: CommandError) -> CommandError {
    let error_text = error_chain(&*error);
    if matches!(error.downcast_ref(), Some(SeedError::Unknown(_))) {
        return format!(
            "{error_text}. Run seed again: if it reports that the registry already has genes, the \
             key works"
        )
        .into();
    }
    format!("{error_text}. Nothing was loaded; the key does not work").into()
}

fn new_key() -> NewKey {
    let spec = KeySpec {
        name: "seed".to_owned(),
        scopes: vec![READ_SCOPE.to_owned()],
        rate_limit_per_minute: RATE_LIMIT,
        expires_at: None,
    };
    NewKey { owner: OWNER.to_owned(), spec }
}

/// Fills the registry with the sample, or with `genes` generated genes.
async fn fill(
    registry: EmptyRegistry<'_>,
    genes: Option<u64>,
    seed: u64,
) -> Result<LoadedRegistry, CommandError> {
    let now = Timestamp::now();
    let loaded = match genes {
        None => registry.fill(Catalogue::sample()?.genes.into_iter(), now, |_| {}).await?,
        Some(count) => {
            let bar = ProgressBar::new(count).with_style(ProgressStyle::with_template(
                "{bar:40} {human_pos}/{human_len} genes, {elapsed} elapsed, {eta} remaining",
            )?);
            let genes = generate::genes(count, seed);
            let loaded = registry.fill(genes, now, |done| bar.set_position(done)).await?;
            bar.finish();
            loaded
        }
    };
    registry.commit().await?;
    Ok(loaded)
}
