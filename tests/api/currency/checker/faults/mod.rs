//! The faults. Each lane injects its faults one after the other, in random order and after random
//! pauses; the lanes overlap. A fault ends what it began, and logs both moments.

mod clocks;
mod connections;
mod database;
mod servers;

pub(super) use servers::start_replica;

use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::{Instant, sleep};

use super::run::CheckerRun;
use crate::support::random::Random;

/// The streams of a seed that the lanes use.
const FIRST_STREAM: u64 = 10;

const RETRY_INTERVAL: Duration = Duration::from_millis(100);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// Cuts or stalls the connections of replicas to Postgres.
    CutPostgres,
    /// Cuts or stalls the connections of replicas to standbys only.
    CutStandby,
    /// Cuts or stalls the connections of replicas to Redis.
    CutRedis,
    SlowLog,
    LockedLog,
    ForbiddenLog,
    /// Very many new rows beside open transactions.
    LargeLog,
    /// Many small changes beside open transactions.
    Burst,
    LockedTables,
    /// `gene-registry maintain` beside writers.
    Maintain,
    DatabaseClock,
    ReplicaClock,
    Promotion,
    /// A promotion that loses transactions.
    LossyPromotion,
    /// A promotion that loses transactions which a further standby of `read_urls` has.
    DivergedStandby,
    /// The last replica is replaced.
    NewReplica,
    /// The last replica is replaced while the primary is down.
    NewReplicaWithoutPrimary,
}

/// Faults of one lane never overlap. The names are for `GENE_REGISTRY_CHECKER_FAULTS`.
const LANES: &[&[(&str, Fault)]] = &[
    &[("cut-postgres", Fault::CutPostgres), ("cut-standby", Fault::CutStandby)],
    &[("cut-redis", Fault::CutRedis)],
    &[
        ("slow-log", Fault::SlowLog),
        ("locked-log", Fault::LockedLog),
        ("forbidden-log", Fault::ForbiddenLog),
        ("large-log", Fault::LargeLog),
        ("burst", Fault::Burst),
        ("locked-tables", Fault::LockedTables),
        ("maintain", Fault::Maintain),
    ],
    &[("database-clock", Fault::DatabaseClock), ("replica-clock", Fault::ReplicaClock)],
    &[
        ("promotion", Fault::Promotion),
        ("lossy-promotion", Fault::LossyPromotion),
        ("diverged-standby", Fault::DivergedStandby),
        ("new-replica", Fault::NewReplica),
        ("new-replica-without-primary", Fault::NewReplicaWithoutPrimary),
    ],
];

/// Whether `GENE_REGISTRY_CHECKER_FAULTS`, a list of names separated by commas, contains a fault.
/// Without it, all are injected.
fn is_enabled(name: &str) -> bool {
    std::env::var("GENE_REGISTRY_CHECKER_FAULTS")
        .map_or(true, |names| names.split(',').any(|enabled| enabled == name))
}

impl CheckerRun {
    /// Injects faults until then; the last ones end later.
    pub(super) async fn inject_faults(&self, seed: u64, until: Instant) {
        let lanes = LANES.iter().enumerate().map(|(number, lane)| async move {
            let lane: Vec<_> = lane.iter().filter(|(name, _)| is_enabled(name)).collect();
            let mut random = Random::new(seed, FIRST_STREAM + number as u64);
            while Instant::now() < until {
                sleep(random.millis(200..6_000)).await;
                if lane.is_empty() || Instant::now() >= until {
                    continue;
                }
                let (name, fault) = **random.of(&lane);
                self.log_event(format!("{name} begins"));
                let end = self.inject(fault, &mut random).await;
                self.log_event(format!("{name} ends: {}", end.err().unwrap_or_default()));
            }
        });
        join_all(lanes).await;
    }

    /// Injects one fault, until it is over. The error says why it did less than it should, which
    /// another fault may be the reason for.
    async fn inject(&self, fault: Fault, random: &mut Random) -> Result<(), String> {
        match fault {
            Fault::CutPostgres => connections::cut_postgres(self, random, true).await,
            Fault::CutStandby => connections::cut_postgres(self, random, false).await,
            Fault::CutRedis => connections::cut_redis(self, random).await,
            Fault::SlowLog => return database::slow_log(self, random).await,
            Fault::LockedLog => return database::locked_log(self, random).await,
            Fault::ForbiddenLog => return database::forbidden_log(self, random).await,
            Fault::LargeLog => return database::large_log(self, random).await,
            Fault::Burst => return database::burst(self, random).await,
            Fault::LockedTables => return database::locked_tables(self, random).await,
            Fault::Maintain => return database::maintain(self, random).await,
            Fault::DatabaseClock => clocks::database(self, random).await,
            Fault::ReplicaClock => clocks::replica(self, random).await,
            Fault::Promotion => servers::promotion(self, random).await,
            Fault::LossyPromotion => servers::lossy_promotion(self, random, false).await,
            Fault::DivergedStandby => servers::lossy_promotion(self, random, true).await,
            Fault::NewReplica => servers::new_replica(self, random).await,
            Fault::NewReplicaWithoutPrimary => {
                servers::new_replica_without_primary(self, random).await;
            }
        }
        Ok(())
    }

    /// Runs SQL on the primary, again and again until it succeeds.
    async fn on_primary(&self, sql: &str) {
        loop {
            let client = self.world.connect().await;
            if let Some(client) = client
                && client.batch_execute(sql).await.is_ok()
            {
                return;
            }
            sleep(RETRY_INTERVAL).await;
        }
    }
}
