//! The load of a run: writers of genes and keys, and readers of every replica.

use std::rc::Rc;
use std::time::Duration;

use futures_util::future::join_all;
use reqwest::Error;
use tokio::time::{Instant, sleep};
use tokio_postgres::Client;

use super::run::CheckerRun;
use super::subjects::{GENES, KEYS, Request, STEADY, Target, id};
use super::world::RunningReplica;
use crate::support::postgres::PostgresServer;
use crate::support::random::Random;
use crate::support::replica::Response;

/// Between two requests of one reader.
const REQUEST_INTERVAL: Duration = Duration::from_millis(25);
/// No response takes longer.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(10);
/// Between two measurements of the machine's delay.
const DELAY_INTERVAL: Duration = Duration::from_millis(50);
const IGNORED_DELAY: Duration = Duration::from_millis(10);

/// A connection to the primary, renewed after a promotion.
#[derive(Default)]
struct Connection(Option<Client>);

impl Connection {
    async fn get(&mut self, run: &CheckerRun) -> &Client {
        while self.0.as_ref().is_none_or(Client::is_closed) {
            self.0 = run.world.connect().await;
            if self.0.is_none() {
                sleep(DELAY_INTERVAL).await;
            }
        }
        self.0.as_ref().unwrap()
    }
}

impl CheckerRun {
    /// Edits, unpublishes and publishes genes until the end.
    pub(super) async fn write_genes(&self, mut random: Random) {
        let (mut version, mut published) = (0, [true; GENES]);
        let mut connections = [Connection::default(), Connection::default()];
        while !self.is_over.get() {
            let gene = random.below(GENES);
            let (other, together) = ((gene + 1) % GENES, random.below(4) == 0);
            published[gene] = gene == 0 || random.below(3) != 0;
            let writes = self.world.writes.read().await;
            let [first, second] = &mut connections;
            let (first, second) = (first.get(self).await, second.get(self).await);
            let began = Instant::now();
            if together {
                // This transaction begins first and commits last.
                first.batch_execute("begin").await.unwrap();
                version += 1;
                set(first, gene, version, published[gene]).await;
                version += 1;
                set(second, other, version, published[other]).await;
                self.add_state(other, published[other].then_some(version), began);
                sleep(random.millis(0..400)).await;
                let began = Instant::now();
                first.batch_execute("commit").await.unwrap();
                self.add_state(gene, published[gene].then_some(version - 1), began);
            } else {
                version += 1;
                set(first, gene, version, published[gene]).await;
                self.add_state(gene, published[gene].then_some(version), began);
            }
            drop(writes);
            sleep(random.millis(50..700)).await;
        }
    }

    /// Revokes keys and makes them valid again until the end.
    pub(super) async fn write_keys(&self, mut random: Random) {
        let prefixes = self.prefixes();
        let (mut valid, mut connection) = ([true; KEYS], Connection::default());
        while !self.is_over.get() {
            sleep(random.millis(500..5_000)).await;
            let key = random.below(KEYS);
            let writes = self.world.writes.read().await;
            let client = connection.get(self).await;
            valid[key] = !valid[key];
            let sql = "update registry.api_key
                set revoked_at = case when $2 then null else now() end where prefix = $1";
            let began = Instant::now();
            let changed = client.execute(sql, &[&prefixes[key], &valid[key]]).await.unwrap();
            assert_eq!(changed, 1);
            self.add_state(STEADY + 1 + key, valid[key].then_some(0), began);
            drop(writes);
        }
    }

    fn add_state(&self, subject: usize, version: Option<u64>, began: Instant) {
        self.history.borrow_mut().add_state(subject, version, began);
    }

    /// Sends the replica of a slot the same requests in turn until the end.
    pub(super) async fn read(&self, slot: usize, requests: Vec<Request>) {
        let client = reqwest::Client::new();
        let mut turn = 0;
        while !self.is_over.get() {
            let replica = self.world.slots[slot].running.borrow().clone();
            if let Some(replica) = replica {
                turn = (turn + 1) % requests.len();
                self.send(&client, &replica, &requests[turn]).await;
            }
            sleep(REQUEST_INTERVAL).await;
        }
    }

    /// Sends every replica all these requests at once.
    pub(super) async fn send_crowd(&self, requests: &[Request]) {
        let client = reqwest::Client::new();
        let replicas = self.world.running();
        let client = &client;
        let each = replicas.iter().flat_map(|replica| {
            requests.iter().map(move |request| self.send(client, replica, request))
        });
        join_all(each).await;
    }

    async fn send(&self, client: &reqwest::Client, replica: &Rc<RunningReplica>, of: &Request) {
        let key = match of.target {
            Target::Key(number) => &self.changing_keys[number],
            Target::Changing | Target::Steady => &self.key,
        };
        let begun = Instant::now();
        match self.get(client, replica, &of.path, key).await {
            Ok(response) => self.record_response(replica, of, &response, begun),
            Err(_) if replica.is_killed.get() => {}
            Err(error) => {
                let what = format!("replica {}, {}: {error:?}", replica.number, of.name);
                self.log_unexpected("no response", what);
            }
        }
    }

    /// One response, or the failure to get one.
    pub(super) async fn get(
        &self,
        client: &reqwest::Client,
        replica: &RunningReplica,
        path: &str,
        key: &str,
    ) -> Result<Response, Error> {
        let url = format!("{}{path}", replica.process.replica.base);
        let request = client.get(url).header("X-API-Key", key).timeout(RESPONSE_TIMEOUT);
        let response = request.send().await?;
        let (status, headers) = (response.status(), response.headers().clone());
        Ok(Response { status, headers, text: response.text().await? })
    }

    /// Measures the delay of this machine until the end, by a server that has no faults.
    pub(super) async fn measure_delay(&self) {
        let client = PostgresServer::shared().await.admin().await;
        while !self.is_over.get() {
            let begun = Instant::now();
            sleep(DELAY_INTERVAL).await;
            client.query_one("select 1", &[]).await.unwrap();
            let delay = begun.elapsed().saturating_sub(DELAY_INTERVAL + IGNORED_DELAY);
            if !delay.is_zero() {
                self.history.borrow_mut().delays.push((Instant::now(), delay));
            }
        }
    }
}

async fn set(client: &Client, gene: usize, version: u64, published: bool) {
    let sql = "update registry.gene set name = $1, description = $1, published = $2
        where id = $3::text::uuid";
    let name = format!("checked {gene} {version}");
    assert_eq!(client.execute(sql, &[&name, &published, &id(gene)]).await.unwrap(), 1);
}
