//! The standbys of the configuration.

use std::sync::Arc;

use super::hosts::Hosts;
use super::url::SetupError;
use super::{Broken, Postgres};
use crate::config::UpstreamConfig;
use crate::ops::PoolState;
use crate::upstream::{StandbySet, Upstream};

/// The standbys, connected to none yet.
pub(super) fn set(
    config: &UpstreamConfig,
    install: &str,
    broken: &Broken,
) -> Result<StandbySet, SetupError> {
    let standby = |(at, one): (usize, UpstreamConfig)| {
        let standby = Postgres::counting(&one, install.to_owned(), Arc::clone(broken));
        standby.map(|standby| Arc::new(standby) as Arc<dyn Upstream>).map_err(|e| of_list(e, at))
    };
    let each = each(config)?.into_iter().enumerate().map(standby).collect::<Result<_, _>>()?;
    Ok(StandbySet { each, max_lag: config.max_lag(), deadline: config.deadline() })
}

/// Whether the configuration says how to connect to each.
pub(super) fn check(config: &UpstreamConfig) -> Result<(), SetupError> {
    each(config).map(drop)
}

/// Each as if it were the only upstream. What a look finds out about a server holds for the reads
/// after it, so a URL leads to one server.
fn each(config: &UpstreamConfig) -> Result<Vec<UpstreamConfig>, SetupError> {
    let one = |(at, url): (usize, &secrecy::SecretString)| {
        let one =
            UpstreamConfig { url: Some(url.clone()), read_urls: Vec::new(), ..config.clone() };
        let hosts = Hosts::new(&one, one.connect()).map_err(|error| of_list(error, at))?;
        if hosts.count() != 1 {
            let why = "it names several hosts; each standby has a URL of its own".to_owned();
            return Err(SetupError::ReadUrl(at + 1, why));
        }
        Ok(one)
    };
    config.read_urls.iter().enumerate().map(one).collect()
}

fn of_list(error: SetupError, at: usize) -> SetupError {
    match error {
        SetupError::Url(why) => SetupError::ReadUrl(at + 1, why),
        other => other,
    }
}

/// The pools of all standbys as one each for reads and for looks.
pub(super) fn together(
    pools: impl Iterator<Item = (&'static str, PoolState)>,
) -> Vec<(&'static str, PoolState)> {
    let (mut reads, mut side) = (None, None);
    for (name, state) in pools {
        let sum = if name == "postgres" { &mut reads } else { &mut side };
        let sum: &mut PoolState = sum.get_or_insert_default();
        sum.max += state.max;
        sum.size += state.size;
        sum.idle += state.idle;
        sum.waiting += state.waiting;
    }
    let named = [("postgres_standbys", reads), ("postgres_standbys_side", side)];
    named.into_iter().filter_map(|(name, state)| Some((name, state?))).collect()
}
