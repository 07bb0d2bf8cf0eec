//! Databases for tests: one each, nothing shared.

use gene_registry::config::UpstreamConfig;
use gene_registry::registry::Timestamp;
use gene_registry::upstream::postgres::connect;
use gene_registry::upstream::{CatalogueGene, Postgres};
use secrecy::SecretString;
use tokio_postgres::Client;

use crate::support::database::{Database, seed};
use crate::support::postgres::PostgresServer;
use crate::support::replica;

/// A database of its own, removed when this is dropped.
pub(crate) struct TestDatabase {
    /// As its owner, a superuser.
    pub(crate) url: String,
    /// As `gene_registry_reader`.
    pub(crate) reader_url: String,
    /// As `gene_registry_keys`.
    pub(crate) keys_url: String,
    _held: Database<'static>,
}

/// A new database with the default schema and nothing in it.
pub(crate) async fn fresh_database() -> TestDatabase {
    of(replica::migrated(PostgresServer::shared().await).await)
}

/// A new database without any schema.
pub(crate) async fn empty_database() -> TestDatabase {
    of(PostgresServer::shared().await.create_database().await)
}

fn of(held: Database<'static>) -> TestDatabase {
    TestDatabase {
        url: held.url(),
        reader_url: held.url_as(replica::READER),
        keys_url: held.url_as("gene_registry_keys"),
        _held: held,
    }
}

/// The default limits on time, with a margin for a loaded machine.
pub(crate) fn config(url: &str) -> UpstreamConfig {
    UpstreamConfig {
        url: Some(SecretString::from(url.to_owned())),
        read_urls: Vec::new(),
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
        connect(&config(&self.url)).await.expect("a connection")
    }

    /// The upstream, as the owner: tests break its rules and need its time.
    pub(crate) fn upstream(&self) -> Postgres {
        Postgres::new(&config(&self.url), TEMPLATE.to_owned()).expect("an upstream")
    }

    /// Loads genes, and checks that they were loaded.
    pub(crate) async fn load(&self, genes: Vec<CatalogueGene>, now: Timestamp) {
        let seeded = seed(&mut self.client().await, genes.into_iter(), now).await;
        assert!(matches!(seeded, Ok(Some(_))), "{seeded:?}");
    }
}

/// The install command's template in all tests.
pub(crate) const TEMPLATE: &str = "install {id}";
