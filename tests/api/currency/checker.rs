//! The black-box checker: a writer edits, unpublishes and publishes genes while readers query three
//! replicas, and a seeded schedule cuts and stalls Redis and Postgres.
//!
//! `GENE_REGISTRY_CHECKER_SEED` replays a schedule; `GENE_REGISTRY_CHECKER_SECONDS` sets the
//! duration of the faults. [`super::history`] has the rules.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::{Instant, sleep};
use tokio_postgres::Client;

use super::history::{Bounds, GeneState, History, Observation, Periods};
use super::{REPLICAS, VISIBLE_WITHIN};
use crate::support::postgres::PostgresServer;
use crate::support::proxy::{Cut, FaultProxy, Mode};
use crate::support::random::Random;
use crate::support::redis::RedisServer;
use crate::support::replica::{Fleet, READER, Replica, Response};
use crate::support::wait::eventually;

const GENES: usize = 4;
const DOMAIN: &str = "checked";

/// Between two requests of one reader.
const REQUEST_INTERVAL: Duration = Duration::from_millis(15);
/// Between two measurements of the machine's delay.
const DELAY_INTERVAL: Duration = Duration::from_millis(50);
/// All replicas must have recovered within this time after the last fault.
const RECOVERY_LIMIT: Duration = Duration::from_secs(10);
const IGNORED_DELAY: Duration = Duration::from_millis(10);

const BOUNDS: Bounds = Bounds { seen: VISIBLE_WITHIN, max_age };

/// The maximum age of a response, with a second for clocks that are read over the network.
fn max_age(request: &str) -> Duration {
    Duration::from_secs(if request.ends_with("/phenotype") { 61 } else { 11 })
}

fn from_environment(name: &str) -> Option<u64> {
    std::env::var(name)
        .ok()
        .map(|value| value.parse().unwrap_or_else(|_| panic!("{name}: {value}")))
}

/// One run of the checker.
struct CheckerRun<'a> {
    fleet: &'a Fleet<'a>,
    key: String,
    history: RefCell<History>,
    observations: RefCell<Vec<Observation>>,
    unexpected: RefCell<Vec<String>>,
    /// The faults are over, and all replicas have recovered.
    is_over: Cell<bool>,
}

fn id(gene: usize) -> String {
    format!("00000000-0000-0000-0000-0000000c0de{gene}")
}

impl CheckerRun<'_> {
    /// Edits, unpublishes and publishes genes until the end; the first gene is always published.
    async fn write(&self, mut random: Random, clients: &[Client; 2]) {
        let (mut version, mut published) = (0, [true; GENES]);
        while !self.is_over.get() {
            let gene = random.below(GENES);
            let (other, together) = ((gene + 1) % GENES, random.below(4) == 0);
            published[gene] = gene == 0 || random.below(3) != 0;
            let began = Instant::now();
            if together {
                // This transaction begins first and commits last.
                clients[0].batch_execute("begin").await.unwrap();
                version += 1;
                set(&clients[0], gene, version, published[gene]).await;
                version += 1;
                set(&clients[1], other, version, published[other]).await;
                self.record_state(other, published[other].then_some(version), began);
                sleep(random.millis(0..400)).await;
                let began = Instant::now();
                clients[0].batch_execute("commit").await.unwrap();
                self.record_state(gene, published[gene].then_some(version - 1), began);
            } else {
                version += 1;
                set(&clients[0], gene, version, published[gene]).await;
                self.record_state(gene, published[gene].then_some(version), began);
            }
            sleep(random.millis(50..700)).await;
        }
    }

    fn record_state(&self, gene: usize, version: Option<u64>, began: Instant) {
        let state = GeneState { version, began, done: Instant::now() };
        let states = &mut self.history.borrow_mut().genes[gene];
        // Unpublished twice in a row is one state.
        if states.last().is_none_or(|last| last.version.is_some() || version.is_some()) {
            states.push(state);
        }
    }

    /// Sends one replica the same requests in turn until the end.
    async fn read(&self, number: usize, requests: Vec<String>) {
        let replica = &self.fleet.replicas[number];
        while !self.is_over.get() {
            for request in &requests {
                let begun = Instant::now();
                let response = replica.get(request, Some(&self.key)).await;
                self.record_response(number, request, &response, begun);
                sleep(REQUEST_INTERVAL).await;
            }
        }
    }

    fn record_response(&self, replica: usize, request: &str, response: &Response, begun: Instant) {
        let ended = Instant::now();
        let Some(shown) = shown(request, response) else {
            let db_error = response.status == 502 && response.code() == "DB_ERROR";
            let healthy = self.history.borrow().is_connected(replica, begun, ended, VISIBLE_WITHIN);
            if !db_error || healthy {
                let at = begun.duration_since(self.history.borrow().start);
                let unexpected = format!("replica {replica}, {request}, at {at:?}: {response:?}");
                self.unexpected.borrow_mut().push(unexpected);
            }
            return;
        };
        let observation = |(gene, version)| {
            let request = request.to_owned();
            Observation { replica, request, gene, version, begun, ended }
        };
        self.observations.borrow_mut().extend(shown.into_iter().map(observation));
    }

    /// Repeatedly breaks the connection of some replicas to a server.
    async fn inject_faults(
        &self,
        mut random: Random,
        proxies: &[FaultProxy],
        until: Instant,
        postgres: bool,
    ) {
        while Instant::now() < until {
            sleep(random.millis(200..4_000)).await;
            let target = random.below(REPLICAS as usize + 2);
            let broken: Vec<usize> = (0..proxies.len())
                .filter(|number| target >= proxies.len() || *number == target)
                .collect();
            let (kind, lasts) = (random.below(5), random.millis(100..4_000));
            if postgres {
                broken.iter().for_each(|n| self.history.borrow_mut().unreachable[*n].begin());
            }
            for proxy in broken.iter().map(|number| &proxies[*number]) {
                match kind {
                    0 | 1 => proxy.set(Mode::Refuse).await,
                    2 | 3 => proxy.set(Mode::Stall).await,
                    _ => proxy.cut(Cut::Reset).await,
                }
            }
            if kind < 4 {
                sleep(lasts).await;
                join_all(broken.iter().map(|number| proxies[*number].set(Mode::Pass))).await;
            }
            if postgres {
                broken.iter().for_each(|n| self.history.borrow_mut().unreachable[*n].end());
            }
        }
    }

    /// Measures the delay of this machine, by which bounds are extended.
    async fn measure_delay(&self, client: &Client) {
        while !self.is_over.get() {
            let begun = Instant::now();
            sleep(DELAY_INTERVAL).await;
            client.query_one("select 1", &[]).await.unwrap();
            let delays = begun.elapsed().saturating_sub(DELAY_INTERVAL + IGNORED_DELAY);
            if !delays.is_zero() {
                self.history.borrow_mut().delays.push((Instant::now(), delays));
            }
        }
    }

    /// Waits until no replica serves stale entries or errors after the last fault.
    async fn wait_for_recovery(&self) {
        for replica in &self.fleet.replicas {
            eventually(RECOVERY_LIMIT, "the replica has recovered", || async {
                let mut all = true;
                for request in requests().concat() {
                    let response = replica.get(&request, Some(&self.key)).await;
                    all &= !response.header("cache-status").contains("stale");
                    all &= matches!(response.status.as_u16(), 200 | 404);
                }
                all
            })
            .await;
        }
    }
}

/// The requests of each replica's readers.
fn requests() -> [Vec<String>; 3] {
    [
        (0..GENES).map(|gene| format!("/genes/{}/phenotype", id(gene))).collect(),
        vec![format!("/genes?domain={DOMAIN}&limit=50"), format!("/genes?limit={GENES}")],
        vec![format!("/arena/insights?domain={DOMAIN}")],
    ]
}

/// The genes in a response and the version of each; `None` if the response is not a valid one.
fn shown(request: &str, response: &Response) -> Option<Vec<(usize, Option<u64>)>> {
    let is_phenotype = request.ends_with("/phenotype");
    match (response.status.as_u16(), is_phenotype) {
        (200, _) => {}
        (404, true) => {
            let gene = (0..GENES).find(|gene| request.contains(&id(*gene)))?;
            return Some(vec![(gene, None)]);
        }
        _ => return None,
    }
    let body = response.json();
    if is_phenotype {
        let (gene, version) = gene_and_version(&body)?;
        return request.contains(&id(gene)).then(|| vec![(gene, Some(version))]);
    }
    let list = body["data"].as_array().or_else(|| body["top_genes"].as_array())?;
    let total = body["total"].as_u64().or_else(|| body["gene_count"].as_u64())?;
    if request.contains(DOMAIN) && total != list.len() as u64 {
        return None;
    }
    let listed: Vec<_> = list.iter().filter_map(gene_and_version).collect();
    let of = |gene| listed.iter().find(|(number, _)| *number == gene).map(|(_, version)| *version);
    Some((0..GENES).map(|gene| (gene, of(gene))).collect())
}

/// The gene and version in a gene's name; `None` for genes that the checker did not create.
fn gene_and_version(gene: &serde_json::Value) -> Option<(usize, u64)> {
    let (number, version) = gene["name"].as_str()?.strip_prefix("checked ")?.split_once(' ')?;
    Some((number.parse().ok()?, version.parse().ok()?))
}

async fn set(client: &Client, gene: usize, version: u64, published: bool) {
    let sql = "update registry.gene set name = $1, description = $1, published = $2
        where id = $3::text::uuid";
    let name = format!("checked {gene} {version}");
    assert_eq!(client.execute(sql, &[&name, &published, &id(gene)]).await.unwrap(), 1);
}

/// Creates genes, as version 0, that are at the top of every list.
async fn create(client: &Client) {
    for gene in 0..GENES {
        let (id, fitness) = (id(gene), 50 + gene);
        let sql = format!(
            "insert into registry.gene (id, domain, fidelity, owner_id, fitness_score, name)
             select '{id}', '{DOMAIN}', 'Native', min(id), {fitness}, 'checked {gene} 0'
             from registry.owner;
             insert into registry.arena_evaluation (gene_id, fitness_value)
             values ('{id}', {fitness})"
        );
        client.batch_execute(&sql).await.unwrap();
    }
}

async fn proxies(target: &str) -> Vec<FaultProxy> {
    join_all((0..REPLICAS).map(|_| FaultProxy::start(target.to_owned()))).await
}

#[tokio::test(flavor = "multi_thread")]
async fn no_replica_goes_back_in_time_under_any_fault() {
    let random = || u64::from(getrandom::u32().unwrap());
    let seed = from_environment("GENE_REGISTRY_CHECKER_SEED").unwrap_or_else(random);
    let seconds = from_environment("GENE_REGISTRY_CHECKER_SECONDS").unwrap_or(60);
    println!("GENE_REGISTRY_CHECKER_SEED={seed} GENE_REGISTRY_CHECKER_SECONDS={seconds}");
    let random = |stream| Random::new(seed, stream);
    let (postgres, redis) = (PostgresServer::shared().await, RedisServer::shared().await);
    let mut fleet = Fleet::start_with(0, postgres, redis, |_| {}).await;
    let (to_postgres, to_redis) = (proxies(&postgres.addr()).await, proxies(&redis.addr()).await);
    create(&fleet.database.connect().await).await;
    for (to_postgres, to_redis) in to_postgres.iter().zip(&to_redis) {
        let mut config = fleet.config.clone();
        config.rate_limit.replicas = REPLICAS;
        config.upstream.url = Some(to_postgres.url(&fleet.database.url_as(READER)).into());
        config.redis.url = Some(to_redis.url(&redis.url()).into());
        (config.upstream.wait_ms, config.upstream.connect_ms) = (500, 500);
        (config.upstream.query_ms, config.upstream.deadline_ms) = (600, 2_000);
        let cache = &mut config.cache;
        (cache.search.fresh_s, cache.search.stale_s, cache.search.if_error_s) = (1, 1, 10);
        (cache.insights.fresh_s, cache.insights.stale_s, cache.insights.if_error_s) = (2, 2, 10);
        (cache.phenotype.fresh_s, cache.phenotype.stale_s) = (30, 0);
        cache.phenotype.if_error_s = 60;
        fleet.replicas.push(Replica::start(&config).await);
    }
    let clients = [fleet.database.connect().await, fleet.database.connect().await];
    let prober = fleet.database.connect().await;
    let start = Instant::now();
    let first = vec![GeneState { version: Some(0), began: start, done: start }];
    let history = History {
        start,
        genes: vec![first; GENES],
        unreachable: vec![Periods::default(); REPLICAS as usize],
        delays: Vec::new(),
    };
    let run = CheckerRun {
        key: fleet.database.new_key(100_000_000).await,
        fleet: &fleet,
        history: RefCell::new(history),
        observations: RefCell::default(),
        unexpected: RefCell::default(),
        is_over: Cell::new(false),
    };
    let until = start + Duration::from_secs(seconds);
    let faults = async {
        tokio::join!(
            run.inject_faults(random(1), &to_postgres, until, true),
            run.inject_faults(random(2), &to_redis, until, false),
        );
        run.wait_for_recovery().await;
        run.is_over.set(true);
    };
    let readers = (0..fleet.replicas.len())
        .flat_map(|number| requests().map(|requests| run.read(number, requests)));
    tokio::join!(
        faults,
        join_all(readers),
        run.write(random(3), &clients),
        run.measure_delay(&prober),
    );

    let (history, observations) = (run.history.into_inner(), run.observations.into_inner());
    let violations = history.violations(&BOUNDS, &observations);
    let mut report: Vec<String> = violations.iter().map(ToString::to_string).collect();
    report.extend(run.unexpected.into_inner());
    let count = report.len();
    report.truncate(12);
    assert_eq!(count, 0, "seed {seed}, {seconds} s, the first of them:\n{}", report.join("\n"));
    let healthy = |observation: &&Observation| {
        history.is_connected(observation.replica, observation.begun, observation.ended, BOUNDS.seen)
    };
    let (all, bounded) = (observations.len(), observations.iter().filter(healthy).count());
    println!("{all} sights, {bounded} of them of replicas that must be up to date");
    let states: usize = history.genes.iter().map(Vec::len).sum();
    assert!(states > 4 * GENES && all > 500 && bounded > 100, "{states} {all} {bounded}");
}
