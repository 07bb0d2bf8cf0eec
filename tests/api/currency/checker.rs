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

use super::history::{Contract, History, Sight, Spells, State};
use super::{REPLICAS, SEEN};
use crate::support::postgres::PostgresServer;
use crate::support::proxy::{Cut, FaultProxy, Mode};
use crate::support::random::Random;
use crate::support::redis::RedisServer;
use crate::support::replica::{Answer, Fleet, READER, Replica};
use crate::support::wait::eventually;

const GENES: usize = 4;
const DOMAIN: &str = "checked";

/// Between two requests of one reader.
const PACE: Duration = Duration::from_millis(15);
/// Between two measurements of the machine's delay.
const PROBE: Duration = Duration::from_millis(50);
/// All replicas must have recovered within this time after the last fault.
const HEALED: Duration = Duration::from_secs(10);
const SOONER: Duration = Duration::from_millis(10);

const CONTRACT: Contract = Contract { seen: SEEN, oldest };

/// The maximum age of a response, with a second for clocks that are read over the network.
fn oldest(request: &str) -> Duration {
    Duration::from_secs(if request.ends_with("/phenotype") { 61 } else { 11 })
}

fn from_environment(name: &str) -> Option<u64> {
    std::env::var(name)
        .ok()
        .map(|value| value.parse().unwrap_or_else(|_| panic!("{name}: {value}")))
}

/// One run of the checker.
struct Run<'a> {
    fleet: &'a Fleet<'a>,
    key: String,
    history: RefCell<History>,
    sights: RefCell<Vec<Sight>>,
    wrong: RefCell<Vec<String>>,
    /// The faults are over, and all replicas have recovered.
    over: Cell<bool>,
}

fn id(gene: usize) -> String {
    format!("00000000-0000-0000-0000-0000000c0de{gene}")
}

impl Run<'_> {
    /// Edits, unpublishes and publishes genes until the end; the first gene is always published.
    async fn write(&self, mut random: Random, clients: &[Client; 2]) {
        let (mut version, mut published) = (0, [true; GENES]);
        while !self.over.get() {
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
                self.came(other, published[other].then_some(version), began);
                sleep(random.millis(0..400)).await;
                let began = Instant::now();
                clients[0].batch_execute("commit").await.unwrap();
                self.came(gene, published[gene].then_some(version - 1), began);
            } else {
                version += 1;
                set(&clients[0], gene, version, published[gene]).await;
                self.came(gene, published[gene].then_some(version), began);
            }
            sleep(random.millis(50..700)).await;
        }
    }

    fn came(&self, gene: usize, version: Option<u64>, began: Instant) {
        let state = State { version, began, done: Instant::now() };
        let states = &mut self.history.borrow_mut().genes[gene];
        // Unpublished twice in a row is one state.
        if states.last().is_none_or(|last| last.version.is_some() || version.is_some()) {
            states.push(state);
        }
    }

    /// Sends one replica the same requests in turn until the end.
    async fn read(&self, number: usize, requests: Vec<String>) {
        let replica = &self.fleet.replicas[number];
        while !self.over.get() {
            for request in &requests {
                let begun = Instant::now();
                let answer = replica.get(request, Some(&self.key)).await;
                self.note(number, request, &answer, begun);
                sleep(PACE).await;
            }
        }
    }

    fn note(&self, replica: usize, request: &str, answer: &Answer, begun: Instant) {
        let ended = Instant::now();
        let Some(shown) = shown(request, answer) else {
            let db_error = answer.status == 502 && answer.code() == "DB_ERROR";
            let healthy = self.history.borrow().is_healthy(replica, begun, ended, SEEN);
            if !db_error || healthy {
                let at = begun.duration_since(self.history.borrow().start);
                let wrong = format!("replica {replica}, {request}, at {at:?}: {answer:?}");
                self.wrong.borrow_mut().push(wrong);
            }
            return;
        };
        let sight = |(gene, version)| {
            let request = request.to_owned();
            Sight { replica, request, gene, version, begun, ended }
        };
        self.sights.borrow_mut().extend(shown.into_iter().map(sight));
    }

    /// Repeatedly breaks the connection of some replicas to a server.
    async fn break_(
        &self,
        mut random: Random,
        proxies: &[FaultProxy],
        until: Instant,
        postgres: bool,
    ) {
        while Instant::now() < until {
            sleep(random.millis(200..4_000)).await;
            let whom = random.below(REPLICAS as usize + 2);
            let hit: Vec<usize> = (0..proxies.len())
                .filter(|number| whom >= proxies.len() || *number == whom)
                .collect();
            let (kind, lasts) = (random.below(5), random.millis(100..4_000));
            if postgres {
                hit.iter().for_each(|n| self.history.borrow_mut().cut_off[*n].begin());
            }
            for proxy in hit.iter().map(|number| &proxies[*number]) {
                match kind {
                    0 | 1 => proxy.set(Mode::Refuse).await,
                    2 | 3 => proxy.set(Mode::Stall).await,
                    _ => proxy.cut(Cut::Reset).await,
                }
            }
            if kind < 4 {
                sleep(lasts).await;
                join_all(hit.iter().map(|number| proxies[*number].set(Mode::Pass))).await;
            }
            if postgres {
                hit.iter().for_each(|n| self.history.borrow_mut().cut_off[*n].end());
            }
        }
    }

    /// Measures the delay of this machine, by which bounds are extended.
    async fn probe(&self, client: &Client) {
        while !self.over.get() {
            let begun = Instant::now();
            sleep(PROBE).await;
            client.query_one("select 1", &[]).await.unwrap();
            let late = begun.elapsed().saturating_sub(PROBE + SOONER);
            if !late.is_zero() {
                self.history.borrow_mut().late.push((Instant::now(), late));
            }
        }
    }

    /// Waits until no replica serves stale entries or errors after the last fault.
    async fn heal(&self) {
        for replica in &self.fleet.replicas {
            eventually(HEALED, "it has healed", || async {
                let mut all = true;
                for request in requests().concat() {
                    let answer = replica.get(&request, Some(&self.key)).await;
                    all &= !answer.header("cache-status").contains("stale");
                    all &= matches!(answer.status.as_u16(), 200 | 404);
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
fn shown(request: &str, answer: &Answer) -> Option<Vec<(usize, Option<u64>)>> {
    let is_phenotype = request.ends_with("/phenotype");
    match (answer.status.as_u16(), is_phenotype) {
        (200, _) => {}
        (404, true) => {
            let gene = (0..GENES).find(|gene| request.contains(&id(*gene)))?;
            return Some(vec![(gene, None)]);
        }
        _ => return None,
    }
    let body = answer.json();
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
    let first = vec![State { version: Some(0), began: start, done: start }];
    let history = History {
        start,
        genes: vec![first; GENES],
        cut_off: vec![Spells::default(); REPLICAS as usize],
        late: Vec::new(),
    };
    let run = Run {
        key: fleet.database.new_key(100_000_000).await,
        fleet: &fleet,
        history: RefCell::new(history),
        sights: RefCell::default(),
        wrong: RefCell::default(),
        over: Cell::new(false),
    };
    let until = start + Duration::from_secs(seconds);
    let faults = async {
        tokio::join!(
            run.break_(random(1), &to_postgres, until, true),
            run.break_(random(2), &to_redis, until, false),
        );
        run.heal().await;
        run.over.set(true);
    };
    let readers = (0..fleet.replicas.len())
        .flat_map(|number| requests().map(|requests| run.read(number, requests)));
    tokio::join!(faults, join_all(readers), run.write(random(3), &clients), run.probe(&prober),);

    let (history, sights) = (run.history.into_inner(), run.sights.into_inner());
    let breaches = history.judge(&CONTRACT, &sights);
    let mut report: Vec<String> = breaches.iter().map(ToString::to_string).collect();
    report.extend(run.wrong.into_inner());
    let count = report.len();
    report.truncate(12);
    assert_eq!(count, 0, "seed {seed}, {seconds} s, the first of them:\n{}", report.join("\n"));
    let healthy =
        |sight: &&Sight| history.is_healthy(sight.replica, sight.begun, sight.ended, CONTRACT.seen);
    let (all, judged) = (sights.len(), sights.iter().filter(healthy).count());
    println!("{all} sights, {judged} of them of replicas that must be up to date");
    let states: usize = history.genes.iter().map(Vec::len).sum();
    assert!(states > 4 * GENES && all > 500 && judged > 100, "{states} {all} {judged}");
}
