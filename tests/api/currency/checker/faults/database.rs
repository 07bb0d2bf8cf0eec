//! Faults of the change log and of the registry's tables.

use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::sleep;
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

use super::super::history::Periods;
use super::super::run::CheckerRun;
use super::super::subjects::crowd_requests;
use super::super::world::program;
use crate::support::process::Launch;
use crate::support::random::Random;

/// The view of the default schema, and the reader's right to it.
pub(super) const HEALTHY_LOG: &str = "
    create or replace view registry_read.change as
        select scope, changed_in, changed_at from registry.change;
    grant select on registry_read.change to gene_registry_reader";

const SLOW_LOG: &str = "
    create or replace view registry_read.change as
        with slow as materialized (select pg_sleep(DELAY))
        select scope, changed_in, changed_at from slow, registry.change";

const FORBIDDEN_LOG: &str = "revoke select on registry_read.change from gene_registry_reader";

/// Open transactions beside a large log or a burst.
const OPEN_TRANSACTIONS: usize = 40;

/// Requests at once to each replica while tables are locked, and the time between two waves.
const WAVE: usize = 20;
const WAVE_INTERVAL: Duration = Duration::from_millis(100);

/// Requests at once that any replica can read from the database.
const WARM_UP: usize = 10;

const NO_PRIMARY: &str = "there was no primary";

async fn connect(run: &CheckerRun) -> Result<Client, String> {
    run.world.connect().await.ok_or_else(|| NO_PRIMARY.to_owned())
}

async fn execute(client: &Client, sql: &str) -> Result<(), String> {
    client.batch_execute(sql).await.map_err(|error| format!("{sql}: {error:?}"))
}

fn log_unreadable(run: &CheckerRun, change: fn(&mut Periods)) {
    change(&mut run.history.borrow_mut().log_unreadable);
}

pub(super) async fn slow_log(run: &CheckerRun, random: &mut Random) -> Result<(), String> {
    let delay = *random.of(&["0.3", "0.7", "1", "3"]);
    run.log_event(format!("the log is slow by {delay} s"));
    break_log(run, random, &SLOW_LOG.replace("DELAY", delay)).await
}

pub(super) async fn forbidden_log(run: &CheckerRun, random: &mut Random) -> Result<(), String> {
    break_log(run, random, FORBIDDEN_LOG).await
}

async fn break_log(run: &CheckerRun, random: &mut Random, sql: &str) -> Result<(), String> {
    log_unreadable(run, Periods::begin);
    let broken = match connect(run).await {
        Ok(client) => execute(&client, sql).await,
        Err(error) => Err(error),
    };
    sleep(random.millis(1_000..10_000)).await;
    run.on_primary(HEALTHY_LOG).await;
    log_unreadable(run, Periods::end);
    broken
}

/// Locks tables in a transaction that no write of the run waits for to begin.
async fn lock(run: &CheckerRun, random: &mut Random, tables: &str) -> Result<(), String> {
    let client = connect(run).await?;
    let sql = format!(
        "begin; set local lock_timeout = '3s'; lock table {tables} in access exclusive mode"
    );
    let locked = {
        let _none = run.world.writes.write().await;
        execute(&client, &sql).await
    };
    if locked.is_ok() {
        sleep(random.millis(300..5_000)).await;
    }
    locked
}

pub(super) async fn locked_log(run: &CheckerRun, random: &mut Random) -> Result<(), String> {
    log_unreadable(run, Periods::begin);
    let locked = lock(run, random, "registry.change").await;
    log_unreadable(run, Periods::end);
    locked
}

pub(super) async fn locked_tables(run: &CheckerRun, random: &mut Random) -> Result<(), String> {
    let tables = *random.of(&[
        "registry.gene",
        "registry.gene, registry.change",
        "registry.gene, registry.arena_evaluation, registry.api_key, registry.change",
    ]);
    run.log_event(tables.to_owned());
    let crowd = crowd_requests();
    for some in crowd.chunks(WARM_UP) {
        run.send_crowd(some).await;
    }
    run.history.borrow_mut().tables_locked.begin();
    log_unreadable(run, Periods::begin);
    // Each wave is sent again and again, whether or not the others have been answered.
    let waves = crowd.chunks(WAVE).enumerate().map(|(number, wave)| async move {
        sleep(WAVE_INTERVAL * number as u32).await;
        loop {
            run.send_crowd(wave).await;
            sleep(WAVE_INTERVAL).await;
        }
    });
    let requests = join_all(waves);
    let locked = tokio::select! {
        locked = lock(run, random, tables) => locked,
        _ = requests => unreachable!("the crowd never ends"),
    };
    run.history.borrow_mut().tables_locked.end();
    log_unreadable(run, Periods::end);
    locked
}

/// Transactions with a number of their own that stay open until the clients are dropped.
async fn open_transactions(run: &CheckerRun) -> Result<Vec<Client>, String> {
    let open = (0..OPEN_TRANSACTIONS).map(|_| async {
        let client = connect(run).await?;
        execute(&client, "begin; select pg_current_xact_id()").await?;
        Ok(client)
    });
    join_all(open).await.into_iter().collect()
}

pub(super) async fn large_log(run: &CheckerRun, random: &mut Random) -> Result<(), String> {
    log_unreadable(run, Periods::begin);
    run.history.borrow_mut().log_overflowed.begin();
    let rows = 5_000 + random.below(55_000);
    run.log_event(format!("{rows} rows"));
    let inserted = async {
        let _open = open_transactions(run).await?;
        let sql = format!(
            "insert into registry.change (scope)
             select 'gene:ffffffff' || substr(gen_random_uuid()::text, 9)
             from generate_series(1, {rows})"
        );
        execute(&connect(run).await?, &sql).await?;
        sleep(random.millis(1_000..6_000)).await;
        Ok(())
    };
    let inserted = inserted.await;
    // Otherwise new replicas have more and more to load.
    run.on_primary("delete from registry.change where scope like 'gene:ffffffff%'").await;
    log_unreadable(run, Periods::end);
    run.history.borrow_mut().log_overflowed.end();
    inserted
}

pub(super) async fn burst(run: &CheckerRun, random: &mut Random) -> Result<(), String> {
    let changes = 100 + random.below(900);
    run.log_event(format!("{changes} changes"));
    let _open = open_transactions(run).await?;
    let sql = format!(
        "do $$ begin
            for n in 1..{changes} loop
                update registry.gene set description = n::text where id = (
                    select id from registry.gene where domain = 'search' order by id limit 1);
                commit;
            end loop;
        end $$"
    );
    execute(&connect(run).await?, &sql).await?;
    sleep(random.millis(0..3_000)).await;
    Ok(())
}

/// A round of maintenance beside a transaction that has changed one gene of a domain: no writer of
/// another gene may fail or wait long.
pub(super) async fn maintain(run: &CheckerRun, random: &mut Random) -> Result<(), String> {
    let (open, writer) = (connect(run).await?, connect(run).await?);
    let shuffle = "update registry.gene set fitness_score = random() where domain = 'search'";
    execute(&writer, shuffle).await?;
    let sql = "select id::text from registry.gene where domain = 'search' order by id";
    let rows = writer.query(sql, &[]).await.map_err(|error| format!("{error:?}"))?;
    let genes: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
    let write = |gene: &String| {
        format!("update registry.gene set downloads = downloads + 1 where id = '{gene}'")
    };
    execute(&open, &format!("begin; {}", write(&genes[0]))).await?;
    let url = run.world.url().ok_or(NO_PRIMARY)?;
    let process = Launch::new("maintain", program())
        .arg("maintain")
        .env("DATABASE_URL", url)
        .env_remove("GENE_REGISTRY_CONFIG")
        .start();
    sleep(random.millis(50..1_500)).await;
    let mut writes = vec![(&writer, "set lock_timeout = '1s'".to_owned())];
    writes.extend(genes[2..].iter().map(|gene| (&writer, write(gene))));
    writes.extend([(&open, write(&genes[1])), (&open, "commit".to_owned())]);
    for (client, sql) in writes {
        let written = client.batch_execute(&sql).await;
        let Err(error) = written else { continue };
        let is_lock = [&SqlState::LOCK_NOT_AVAILABLE, &SqlState::T_R_DEADLOCK_DETECTED];
        if error.code().is_some_and(|code| is_lock.contains(&code)) {
            run.log_unexpected("maintain blocks a writer", format!("{sql}: {error:?}"));
        }
        return Err(format!("{sql}: {error:?}"));
    }
    process.exited_within(Duration::from_secs(10)).await;
    Ok(())
}
