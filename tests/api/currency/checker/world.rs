//! The servers of a run: a primary and its standby, Redis, and the places of three replicas, each
//! with proxies of its own before every server.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::runtime::Handle;
use tokio::sync::RwLock;
use tokio_postgres::{Client, NoTls};

use crate::support::binary::{PROGRAM, ReplicaProcess};
use crate::support::fake_clock::FakeClock;
use crate::support::postgres::{PostgresServer, SUPERUSER};
use crate::support::proxy::FaultProxy;
use crate::support::redis::RedisServer;
use crate::support::replica::{READER, sample};
use crate::support::standby::primary_with;

/// The places of replicas. The one in the last slot is replaced during the run.
pub(super) const SLOTS: usize = 3;

/// The places of Postgres servers: the pair of `upstream.url`, and a further standby, which exists
/// only at times. All are in `upstream.read_urls`.
pub(super) const SERVERS: usize = 3;

/// The place of the further standby.
pub(super) const FURTHER: usize = 2;

/// Nothing listens here.
const NOWHERE: &str = "127.0.0.1:1";

/// The configuration of every replica, with names that exist since 1.0.0.
const CONFIGURATION: &[(&str, &str)] = &[
    ("UPSTREAM__WAIT_MS", "500"),
    ("UPSTREAM__CONNECT_MS", "500"),
    ("UPSTREAM__QUERY_MS", "600"),
    ("UPSTREAM__DEADLINE_MS", "2000"),
    ("SHED__WAIT_MS", "200"),
    ("REDIS__TIMEOUT_MS", "200"),
    ("RATE_LIMIT__REPLICAS", "3"),
];

/// How long responses are fresh: the seed decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ages {
    /// Most responses expire within seconds.
    Short,
    /// No response expires during a run, so that requests alone do not show the database's state.
    Long,
}

impl Ages {
    /// `fresh_s`, `stale_s` and `if_error_s` of each kind of response.
    const fn settings(self) -> [(&'static str, [&'static str; 3]); 3] {
        let long = ["3600", "3600", "86400"];
        match self {
            Self::Short => [
                ("SEARCH", ["1", "1", "30"]),
                ("INSIGHTS", ["2", "2", "30"]),
                ("PHENOTYPE", ["30", "0", "60"]),
            ],
            Self::Long => [("SEARCH", long), ("INSIGHTS", long), ("PHENOTYPE", long)],
        }
    }

    /// The maximum age of the response to a request, with a second for clocks that are read over
    /// the network.
    pub(super) fn max_age(self, request: &str) -> Duration {
        self.if_error(request) + Duration::from_secs(1)
    }

    /// The age up to which a response is certainly cached: jitter shortens its life.
    pub(super) fn min_lifetime(self, request: &str) -> Duration {
        self.if_error(request) * 4 / 5
    }

    fn if_error(self, request: &str) -> Duration {
        let [search, insights, phenotype] = self.settings().map(|(_, [.., if_error])| if_error);
        let kind = match request {
            _ if request.ends_with("/phenotype") => phenotype,
            _ if request.starts_with("/arena") => insights,
            _ => search,
        };
        Duration::from_secs(kind.parse().unwrap())
    }
}

/// The program under test: `GENE_REGISTRY_CHECKER_PROGRAM`, or this build.
pub(super) fn program() -> String {
    std::env::var("GENE_REGISTRY_CHECKER_PROGRAM").unwrap_or_else(|_| PROGRAM.to_owned())
}

/// A Postgres server with a clock of its own.
pub(super) struct Server {
    pub(super) postgres: PostgresServer,
    pub(super) clock: FakeClock,
    /// What a standby receives comes through this proxy.
    pub(super) stream: Option<FaultProxy>,
}

impl Server {
    /// A standby of `primary` that has caught up. Its clock is wrong by `shift` seconds.
    pub(super) async fn standby_of(primary: Arc<Self>, shift: i64) -> Arc<Self> {
        // On a thread for blocking calls: the copy blocks it, and comes through the proxy.
        let runtime = Handle::current();
        let start = async move {
            let stream = FaultProxy::start(primary.postgres.addr()).await;
            let clock = FakeClock::new(0);
            clock.set_ahead(shift);
            let (port, env) = (stream.addr().port(), clock.env().into());
            let postgres = primary.postgres.start_standby_with(port, env).await;
            Arc::new(Self { postgres, clock, stream: Some(stream) })
        };
        let standby = tokio::task::spawn_blocking(move || runtime.block_on(start));
        standby.await.unwrap()
    }
}

/// A replica in a process of its own.
pub(super) struct RunningReplica {
    /// Different for each process of a run.
    pub(super) number: usize,
    pub(super) slot: usize,
    pub(super) process: ReplicaProcess,
    /// It has been killed, or is about to be.
    pub(super) is_killed: Cell<bool>,
}

/// The place of a replica.
pub(super) struct Slot {
    pub(super) postgres: Vec<FaultProxy>,
    pub(super) redis: FaultProxy,
    pub(super) clock: FakeClock,
    pub(super) running: RefCell<Option<Rc<RunningReplica>>>,
}

/// All servers of a run.
pub(super) struct World {
    pub(super) database: String,
    pub(super) ages: Ages,
    pub(super) slots: Vec<Slot>,
    servers: RefCell<[Option<Arc<Server>>; SERVERS]>,
    /// The place of the primary.
    primary: Cell<usize>,
    /// Writers hold it for reading; who must have no write in progress holds it for writing.
    pub(super) writes: RwLock<()>,
    redis: RedisServer,
    prefix: String,
    replicas_started: Cell<usize>,
}

impl World {
    /// The servers, without replicas.
    pub(super) async fn start(ages: Ages) -> Self {
        let clock = FakeClock::new(0);
        let postgres = primary_with(clock.env().into()).await;
        let database = sample(&postgres).await.name().to_owned();
        let primary = Arc::new(Server { postgres, clock, stream: None });
        let standby = Server::standby_of(Arc::clone(&primary), 0).await;
        let redis = RedisServer::start(&[]).await;
        let addresses = [primary.postgres.addr(), standby.postgres.addr(), NOWHERE.to_owned()];
        let slots = join_all((0..SLOTS).map(|_| async {
            Slot {
                postgres: join_all(addresses.iter().map(FaultProxy::start)).await,
                redis: FaultProxy::start(redis.addr()).await,
                clock: FakeClock::new(0),
                running: RefCell::new(None),
            }
        }));
        Self {
            database,
            ages,
            slots: slots.await,
            servers: RefCell::new([Some(primary), Some(standby), None]),
            primary: Cell::new(0),
            writes: RwLock::new(()),
            redis,
            prefix: RedisServer::new_prefix(),
            replicas_started: Cell::new(0),
        }
    }

    /// Starts a replica in a slot that has none. It is not yet in use.
    pub(super) async fn start_replica(&self, slot: usize) -> Rc<RunningReplica> {
        let place = &self.slots[slot];
        let ports: Vec<u16> = place.postgres.iter().map(|proxy| proxy.addr().port()).collect();
        let database = &self.database;
        let url = format!(
            "postgres://{READER}@127.0.0.1:{},127.0.0.1:{}/{database}?target_session_attrs=primary",
            ports[0], ports[1]
        );
        let one = |port: &u16| format!("\"postgres://{READER}@127.0.0.1:{port}/{database}\"");
        let read_urls = ports.iter().map(one).collect::<Vec<_>>().join(", ");
        let mut env = Vec::from(place.clock.env());
        let mut set = |name: &str, value: &str| {
            env.push((format!("GENE_REGISTRY__{name}"), value.to_owned()));
        };
        set("UPSTREAM__URL", &url);
        set("UPSTREAM__READ_URLS", &format!("[{read_urls}]"));
        set("REDIS__URL", &place.redis.url(&self.redis.url()));
        set("REDIS__PREFIX", &self.prefix);
        CONFIGURATION.iter().for_each(|(name, value)| set(name, value));
        for (kind, ages) in self.ages.settings() {
            for (name, age) in ["FRESH_S", "STALE_S", "IF_ERROR_S"].iter().zip(ages) {
                set(&format!("CACHE__{kind}__{name}"), age);
            }
        }
        let env: Vec<(&str, &str)> = env.iter().map(|(name, value)| (&**name, &**value)).collect();
        let process = ReplicaProcess::start_program(&program(), &env).await;
        let number = self.replicas_started.replace(self.replicas_started.get() + 1);
        Rc::new(RunningReplica { number, slot, process, is_killed: Cell::new(false) })
    }

    /// Kills the replica of a slot, if there is one.
    pub(super) fn kill_replica(&self, slot: usize) {
        if let Some(replica) = self.slots[slot].running.take() {
            replica.is_killed.set(true);
            replica.process.kill();
        }
    }

    pub(super) fn running(&self) -> Vec<Rc<RunningReplica>> {
        self.slots.iter().filter_map(|slot| slot.running.borrow().clone()).collect()
    }

    /// The place of the primary, and that of its standby.
    pub(super) fn pair(&self) -> (usize, usize) {
        (self.primary.get(), 1 - self.primary.get())
    }

    pub(super) fn server(&self, place: usize) -> Option<Arc<Server>> {
        self.servers.borrow()[place].clone()
    }

    pub(super) fn primary(&self) -> Arc<Server> {
        self.server(self.primary.get()).unwrap()
    }

    /// Puts a server in a place. Replicas reach it there from now on.
    pub(super) fn place_server(&self, place: usize, server: Arc<Server>) {
        for slot in &self.slots {
            slot.postgres[place].retarget(server.postgres.addr());
        }
        self.servers.borrow_mut()[place] = Some(server);
    }

    /// Kills the server in a place, if there is one.
    pub(super) async fn kill_server(&self, place: usize) {
        let server = self.servers.borrow_mut()[place].take();
        if let Some(server) = server {
            server.postgres.kill().await;
        }
    }

    /// Promotes the standby. The primary has been killed.
    pub(super) async fn promote(&self) {
        let (_, standby) = self.pair();
        self.server(standby).unwrap().postgres.promote().await;
        self.primary.set(standby);
    }

    /// The database on the primary, as the superuser; `None` while there is none.
    pub(super) fn url(&self) -> Option<String> {
        let server = self.server(self.primary.get())?;
        Some(server.postgres.url(&self.database, SUPERUSER))
    }

    /// A connection to the primary, as the superuser; `None` while there is none.
    pub(super) async fn connect(&self) -> Option<Client> {
        let (client, connection) = tokio_postgres::connect(&self.url()?, NoTls).await.ok()?;
        tokio::spawn(connection);
        Some(client)
    }
}
