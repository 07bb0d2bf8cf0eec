//! A database for each test.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use gene_registry::default_schema::seed::{EmptyRegistry, LoadedRegistry, SeedError, vacuum};
use gene_registry::registry::{ApiKeyRecord, CatalogueGene, KeyHash, Timestamp};
use gene_registry::upstream::{Read, Upstream, UpstreamError};
use tokio::sync::OnceCell;
use tokio_postgres::{Client, NoTls};

use super::postgres::{PostgresServer, connect};
use super::random_hex;

/// The role that replicas read as.
pub(crate) const READER: &str = "gene_registry_reader";

/// Databases that are filled once and then copied, by name.
pub(super) type Templates = Mutex<HashMap<String, Arc<OnceCell<String>>>>;

/// The age, in hours, from which templates left on an external server are removed.
const TEMPLATE_HOURS: u64 = 24;

/// Loads genes into an empty registry, as `gene-registry seed` does; `None` if it is not empty.
pub(crate) async fn seed(
    client: &mut Client,
    genes: impl Iterator<Item = CatalogueGene>,
    now: Timestamp,
) -> Result<Option<LoadedRegistry>, SeedError> {
    let Some(registry) = EmptyRegistry::lock(client).await? else { return Ok(None) };
    let loaded = registry.fill(genes, now, |_| {}).await?;
    registry.commit().await?;
    vacuum(client).await?;
    Ok(Some(loaded))
}

/// Reads one API key.
pub(crate) trait ReadKey {
    async fn api_key(&self, hash: &KeyHash) -> Result<Read<Option<ApiKeyRecord>>, UpstreamError>;
}

impl<U: Upstream + ?Sized> ReadKey for U {
    async fn api_key(&self, hash: &KeyHash) -> Result<Read<Option<ApiKeyRecord>>, UpstreamError> {
        let Read { mut value, seen } = self.api_keys(&[*hash]).await?;
        Ok(Read { value: value.pop().flatten(), seen })
    }
}

/// The database of one test. Dropping it removes it from a shared server.
#[derive(Debug)]
pub(crate) struct Database<'a> {
    server: &'a PostgresServer,
    name: String,
}

impl PostgresServer {
    /// A new, empty database.
    pub(crate) async fn create_database(&self) -> Database<'_> {
        self.create_from("template0").await
    }

    /// A new, empty database with an encoding of its own.
    pub(crate) async fn create_database_in(&self, encoding: &str) -> Database<'_> {
        let source = format!("template0 encoding '{encoding}' lc_collate 'C' lc_ctype 'C'");
        self.create_from(&source).await
    }

    /// A new copy of the database `template`. The first call for a name on this server fills it by
    /// `fill`, which gets its URL as the superuser.
    pub(crate) async fn create_database_like<F: Future<Output = ()>>(
        &self,
        template: &str,
        fill: impl FnOnce(String) -> F,
    ) -> Database<'_> {
        let once = Arc::clone(self.templates.lock().unwrap().entry(template.into()).or_default());
        let source = once
            .get_or_init(|| async {
                let admin = self.admin().await;
                remove_old_templates(&admin).await;
                let name = format!("gr_template_{}_{}", hours(), random_hex(6));
                create(&admin, &name, "template0").await;
                fill(self.url(&name, &self.superuser())).await;
                // A database with open connections cannot be copied.
                let sql = format!("alter database {name} allow_connections false");
                admin.batch_execute(&sql).await.unwrap();
                self.terminate_backends(&name).await;
                name
            })
            .await;
        self.create_from(source).await
    }

    async fn create_from(&self, source: &str) -> Database<'_> {
        let name = format!("gr_test_{}", random_hex(8));
        create(&self.admin().await, &name, source).await;
        Database { server: self, name }
    }
}

async fn create(admin: &Client, name: &str, source: &str) {
    let sql = format!("create database {name} template {source}");
    admin.batch_execute(&sql).await.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
}

/// Removes what earlier test processes left on an external server.
async fn remove_old_templates(admin: &Client) {
    let sql = "select datname from pg_database where datname like 'gr\\_template\\_%'";
    for row in admin.query(sql, &[]).await.unwrap() {
        let name: String = row.get(0);
        let made = name.split('_').nth(2).and_then(|hours| hours.parse::<u64>().ok());
        if made.is_some_and(|made| made + TEMPLATE_HOURS < hours()) {
            // Ignored: another test process may be removing it too.
            drop(admin.batch_execute(&format!("drop database if exists {name}")).await);
        }
    }
}

fn hours() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() / 3600
}

impl Database<'_> {
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// `postgres://…` as the superuser.
    pub(crate) fn url(&self) -> String {
        self.url_as(&self.server.superuser())
    }

    /// `postgres://…` as a role.
    pub(crate) fn url_as(&self, user: &str) -> String {
        self.server.url(&self.name, user)
    }

    /// A connection as the superuser.
    pub(crate) async fn connect(&self) -> Client {
        connect(&self.url()).await
    }

    /// Blocks every read of genes until the client is dropped or rolls back.
    pub(crate) async fn lock_genes(&self) -> Client {
        let client = self.connect().await;
        let lock = "begin; lock table registry.gene in access exclusive mode";
        client.batch_execute(lock).await.unwrap();
        client
    }

    /// The number of replicas' connections to this database for which an SQL condition on
    /// `pg_stat_activity` holds.
    pub(crate) async fn count_connections(&self, client: &Client, condition: &str) -> i64 {
        let sql = format!(
            "select count(*) from pg_stat_activity where datname = $1 and usename = $2
             and {condition}"
        );
        client.query_one(&sql, &[&self.name, &READER]).await.unwrap().get(0)
    }
}

impl Drop for Database<'_> {
    fn drop(&mut self) {
        if !self.server.is_shared() {
            return;
        }
        let url = self.server.url("postgres", &self.server.superuser());
        let sql = format!("drop database if exists {} with (force)", self.name);
        // A thread of its own: the test's runtime may be ending.
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(async {
                let work = async {
                    let (client, connection) = tokio_postgres::connect(&url, NoTls).await?;
                    tokio::spawn(connection);
                    client.batch_execute(&sql).await
                };
                // Ignored: a database left behind affects no other test.
                drop(tokio::time::timeout(Duration::from_secs(5), work).await);
            });
        });
        drop(thread.join());
    }
}
