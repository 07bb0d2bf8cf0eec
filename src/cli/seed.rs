//! `gene-registry seed`

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use secrecy::zeroize::Zeroizing;

use super::show::{notice, print, print_secret};
use super::{ConfigFile, Outcome, block_on};
use crate::keys::{ApiKey, KeySpec, NewKey, READ_SCOPE, insert_key_in};
use crate::ops::error_chain;
use crate::registry::Timestamp;
use crate::upstream::postgres::connect;
use crate::upstream::postgres::seed::{EmptyRegistry, LoadedRegistry, SeedError, vacuum};
use crate::upstream::{Catalogue, generate};

/// Requests a minute of the key that is printed.
const RATE_LIMIT: u32 = 5000;

const OWNER: &str = "sample-registry";

#[derive(Debug, Args)]
pub(super) struct Seed {
    #[command(flatten)]
    config: ConfigFile,
    /// Load this many generated genes instead of the sample registry
    #[arg(long, value_name = "N")]
    genes: Option<u64>,
    /// What the generated genes follow from: the same number gives the same genes
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// Read the API key from this file (its first line that is not empty and no comment) instead of
    /// making one; the file has to be there, and is not changed
    #[arg(long, value_name = "F")]
    key_file: Option<PathBuf>,
}

type Error = Box<dyn std::error::Error + Send + Sync>;

impl Seed {
    pub(super) fn run(self) -> Outcome {
        let config = self.config.read()?.config;
        // Read before anything is changed.
        let given = self.key_file.as_deref().map(read_key).transpose()?;
        block_on(async {
            let mut client = connect(&config.upstream).await?;
            let Some(registry) = EmptyRegistry::lock(&mut client).await? else {
                print("The registry has genes already; nothing was changed.\n")?;
                return Ok(ExitCode::SUCCESS);
            };
            let key = given.map_or_else(ApiKey::generate, Ok)?;
            insert_key_in(registry.transaction(), &key, &new_key()).await?;
            // Nobody could use a registry whose only key was lost.
            print_secret(key.expose()).map_err(|error| format!("{error}; nothing was loaded"))?;
            let filled = fill(registry, self.genes, self.seed).await;
            let LoadedRegistry { genes, evaluations } = filled.map_err(with_fate_of_key)?;
            notice(&format!("Loaded {genes} genes with {evaluations} evaluations."));
            if let Err(error) = vacuum(&client).await {
                let error = error_chain(&error);
                notice(&format!("warning: the tables could not be vacuumed: {error}"));
            }
            Ok(ExitCode::SUCCESS)
        })
    }
}

/// What became of the key that was printed, when the registry could not be filled.
fn with_fate_of_key(error: Error) -> Error {
    let error_text = error_chain(&*error);
    if matches!(error.downcast_ref(), Some(SeedError::Unknown(_))) {
        return format!(
            "{error_text}. Run seed again: if it says that the registry has genes already, the \
             printed key works"
        )
        .into();
    }
    format!("{error_text}. Nothing was loaded; the printed key does not work").into()
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

fn read_key(path: &Path) -> Result<ApiKey, Error> {
    let unreadable = |error| {
        format!(
            "--key-file {}: cannot be read: {error}. The key to use is read from it; nothing is \
             written to it. Without --key-file a key is made, and printed",
            path.display()
        )
    };
    let text = Zeroizing::new(std::fs::read_to_string(path).map_err(unreadable)?);
    let line = text.lines().find(|line| !line.trim().is_empty() && !line.starts_with('#'));
    line.unwrap_or_default()
        .trim()
        .parse()
        .map_err(|error| format!("--key-file {}: {error}", path.display()).into())
}

/// Fills the registry with the sample, or with so many generated genes.
async fn fill(
    registry: EmptyRegistry<'_>,
    genes: Option<u64>,
    from: u64,
) -> Result<LoadedRegistry, Error> {
    let now = Timestamp::now();
    let loaded = match genes {
        None => registry.fill(Catalogue::sample()?.genes.into_iter(), now, |_| {}).await?,
        Some(count) => {
            let bar = ProgressBar::new(count).with_style(ProgressStyle::with_template(
                "{bar:40} {human_pos}/{human_len} genes, {elapsed} so far, {eta} to go",
            )?);
            let genes = generate::genes(count, from);
            let loaded = registry.fill(genes, now, |done| bar.set_position(done)).await?;
            bar.finish();
            loaded
        }
    };
    registry.commit().await?;
    Ok(loaded)
}
