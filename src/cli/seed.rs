//! `gene-registry seed`

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use secrecy::zeroize::Zeroizing;
use tokio_postgres::Client;

use super::{ConfigFile, Outcome, block_on};
use crate::keys::{ApiKey, NewKey, READ_SCOPE, insert_key};
use crate::registry::Timestamp;
use crate::upstream::postgres::{connect, seed};
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
            match load(&mut client, self.genes, self.seed).await? {
                seed::Seeded::AlreadyFilled => {
                    println!("The registry has genes already; nothing was changed.");
                }
                seed::Seeded::Loaded { genes, evaluations } => {
                    eprintln!("Loaded {genes} genes with {evaluations} evaluations.");
                    let key = match given {
                        Some(key) => key,
                        None => ApiKey::generate()?,
                    };
                    insert_key(&mut client, &key, &new_key()).await?;
                    println!("{}", key.expose());
                }
            }
            Ok(ExitCode::SUCCESS)
        })
    }
}

fn new_key() -> NewKey {
    NewKey {
        owner: OWNER.to_owned(),
        name: "seed".to_owned(),
        scopes: vec![READ_SCOPE.to_owned()],
        rate_limit_per_minute: RATE_LIMIT,
        expires_at: None,
    }
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

async fn load(client: &mut Client, genes: Option<u64>, from: u64) -> Result<seed::Seeded, Error> {
    let now = Timestamp::now();
    let Some(count) = genes else {
        let catalogue = Catalogue::sample()?;
        return Ok(seed::load(client, catalogue.genes.into_iter(), now, |_| {}).await?);
    };
    let bar = ProgressBar::new(count).with_style(ProgressStyle::with_template(
        "{bar:40} {human_pos}/{human_len} genes, {elapsed} so far, {eta} to go",
    )?);
    let loaded = seed::load(client, generate::genes(count, from), now, |done| {
        bar.set_position(done);
    });
    let loaded = loaded.await?;
    bar.finish();
    Ok(loaded)
}
