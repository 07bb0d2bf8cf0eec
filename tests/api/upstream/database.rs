//! A database for each test.

use gene_registry::config::UpstreamConfig;
use gene_registry::registry::{CatalogueGene, Timestamp};
use gene_registry::upstream::Postgres;
use secrecy::SecretString;
use tokio_postgres::Client;

use crate::support::database::{Database, seed};
use crate::support::postgres::{PostgresServer, connect};
use crate::support::replica;

/// A database of its own. Dropping it removes it from the server.
pub(crate) struct TestDatabase {
    /// The URL of its owner, a superuser.
    pub(crate) url: String,
    /// The URL of `gene_registry_reader`.
    pub(crate) reader_url: String,
    /// The URL of `gene_registry_keys`.
    pub(crate) keys_url: String,
    /// The URL of `gene_registry_usage`.
    pub(crate) usage_url: String,
    _database: Database<'static>,
}

/// A new database with the default schema and no rows.
pub(crate) async fn fresh_database() -> TestDatabase {
    of(replica::migrated(PostgresServer::shared().await).await)
}

/// A new database without a schema.
pub(crate) async fn empty_database() -> TestDatabase {
    of(PostgresServer::shared().await.create_database().await)
}

fn of(database: Database<'static>) -> TestDatabase {
    TestDatabase {
        url: database.url(),
        reader_url: database.url_as(replica::READER),
        keys_url: database.url_as("gene_registry_keys"),
        usage_url: database.url_as("gene_registry_usage"),
        _database: database,
    }
}

/// The default timeouts, with a margin for a loaded machine.
pub(crate) fn config(url: &str) -> UpstreamConfig {
    UpstreamConfig {
        url: Some(SecretString::from(url.to_owned())),
        url_file: None,
        read_urls: Vec::new(),
        read_urls_file: None,
        max_lag_ms: 10_000,
        tls_ca_file: None,
        pool_size: 4,
        wait_ms: 5_000,
        connect_ms: 5_000,
        query_ms: 20_000,
        tcp_user_timeout_ms: 500,
        deadline_ms: 30_000,
        prepared_statements: true,
    }
}

impl TestDatabase {
    /// A connection as the owner.
    pub(crate) async fn client(&self) -> Client {
        connect(&self.url).await
    }

    /// The upstream, connected as the owner: tests violate its constraints and need longer
    /// statements.
    pub(crate) fn upstream(&self) -> Postgres {
        Postgres::new(&config(&self.url), TEMPLATE.to_owned()).expect("an upstream")
    }

    /// Loads genes and checks that all of them were loaded.
    pub(crate) async fn load(&self, genes: Vec<CatalogueGene>, now: Timestamp) {
        let seeded = seed(&mut self.client().await, genes.into_iter(), now).await;
        assert!(matches!(seeded, Ok(Some(_))), "{seeded:?}");
    }
}

/// The template of the install command in all tests.
pub(crate) const TEMPLATE: &str = "install {id}";
