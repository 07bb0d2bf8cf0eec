//! Reads the numbers that the front page shows without a key, where the operator has made them public.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::Deserialize;
use thiserror::Error;

use super::services::Services;
use crate::api::{Leader, PublicNumbers};
use crate::cache::ReadError;
use crate::ops::error_chain;
use crate::registry::{GeneFilter, GeneSearch, RegistryNumbers, Request};

/// Interval between reads.
const INTERVAL: Duration = Duration::from_secs(60);

/// Interval after the first read, if that fails. It doubles with each failure.
const RETRY_INTERVAL: Duration = Duration::from_secs(2);

/// How long numbers are shown while they cannot be read.
const MAX_AGE: Duration = Duration::from_secs(3600);

/// Why the numbers are unknown.
#[derive(Debug, Error)]
enum NumbersError {
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error("a cached response has another form")]
    Form(#[from] serde_json::Error),
}

/// What the front page shows of a ranking.
#[derive(Deserialize)]
struct Ranking {
    data: Vec<Leader>,
}

/// Keeps the numbers up to date, by reads through the caches. Does not return.
pub(super) async fn publish_numbers(services: Arc<Services>) {
    let (mut pause, mut is_failing, mut read_at) = (RETRY_INTERVAL, false, Instant::now());
    loop {
        match services.read_numbers().await {
            Ok(numbers) => {
                (pause, is_failing, read_at) = (INTERVAL, false, Instant::now());
                services.numbers.set(Some(numbers));
            }
            Err(error) => {
                if !std::mem::replace(&mut is_failing, true) {
                    let error = error_chain(&error);
                    tracing::warn!(error, "cannot read the numbers of the front page");
                }
                if read_at.elapsed() > MAX_AGE {
                    services.numbers.set(None);
                }
            }
        }
        tokio::time::sleep(pause).await;
        pause = (2 * pause).min(INTERVAL);
    }
}

impl Services {
    async fn read_numbers(&self) -> Result<PublicNumbers, NumbersError> {
        let entry = self.reads.get(&Request::Numbers).await?.entry;
        let numbers: RegistryNumbers = serde_json::from_slice(&entry.body)?;
        let mut domains = self.leading_domains.clone();
        if domains.is_empty() {
            let largest = numbers.domains.first();
            domains.extend(largest.and_then(|largest| largest.domain.parse().ok()));
        }
        let mut leaders = Vec::new();
        for domain in domains {
            let filter = GeneFilter { domain: Some(domain.clone()), fidelity: None };
            let search = GeneSearch { filter, ..GeneSearch::default() };
            let ranking = self.reads.get(&Request::Search(search)).await?.entry;
            let Ranking { data } = serde_json::from_slice(&ranking.body)?;
            leaders.push((domain, data));
        }
        Ok(PublicNumbers::new(&numbers, &leaders, entry.body.clone()))
    }
}
