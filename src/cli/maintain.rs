//! `gene-registry maintain`

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use jiff::SignedDuration;

use super::signals::Signals;
use super::{ConfigFile, Outcome, block_on};
use crate::config::UpstreamConfig;
use crate::ops::telemetry;
use crate::upstream::postgres::{connect, maintain};

type Error = Box<dyn std::error::Error + Send + Sync>;

#[derive(Debug, Args)]
pub(super) struct Maintain {
    #[command(flatten)]
    config: ConfigFile,
    /// Go on for ever, a round each time this long (1s to 24h) has passed; without it, one round
    #[arg(long, value_name = "DURATION", num_args = 0..=1, default_missing_value = "60s",
          value_parser = pause)]
    every: Option<Duration>,
}

impl Maintain {
    pub(super) fn run(self) -> Outcome {
        let config = self.config.read()?.config;
        telemetry::init(&config.log)?;
        block_on(async {
            match self.every {
                None => round(&config.upstream).await?,
                Some(every) => rounds(&config.upstream, every).await?,
            }
            Ok(ExitCode::SUCCESS)
        })
    }
}

fn pause(text: &str) -> Result<Duration, String> {
    let given =
        text.parse::<SignedDuration>().ok().and_then(|given| Duration::try_from(given).ok());
    let range = Duration::from_secs(1)..=Duration::from_secs(86_400);
    let expected = "expected a duration of 1s to 24h, such as 60s or 5m";
    given.filter(|given| range.contains(given)).ok_or_else(|| expected.to_owned())
}

/// A round that fails is logged; the next one tries again. One that is under way at the end is
/// given up: each statement of it stands by itself.
async fn rounds(config: &UpstreamConfig, every: Duration) -> Result<(), Error> {
    let mut signals = Signals::new()?;
    let rounds = async {
        loop {
            if let Err(error) = round(config).await {
                tracing::warn!(error = &*error, "a round of maintenance failed");
            }
            tokio::time::sleep(every).await;
        }
    };
    tokio::select! {
        () = signals.asked_to_end() => Ok(()),
        () = rounds => Ok(()),
    }
}

async fn round(config: &UpstreamConfig) -> Result<(), Error> {
    let mut client = connect(config).await?;
    let done = maintain::run_once(&mut client).await?;
    tracing::info!(domains = done.domains, ranks = done.ranks, pruned = done.pruned, "maintained");
    Ok(())
}
