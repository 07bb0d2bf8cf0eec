//! Databases for tests: one each, nothing shared.

use std::time::Duration;

use gene_registry::config::UpstreamConfig;
use gene_registry::registry::Timestamp;
use gene_registry::upstream::postgres::{connect, schema, seed};
use gene_registry::upstream::{CatalogueGene, Postgres};
use secrecy::SecretString;
use tokio_postgres::Client;

/// A database of its own.
pub(crate) struct TestDatabase {
    /// As its owner, a superuser.
    pub(crate) url: String,
    /// As `gene_registry_reader`.
    pub(crate) reader_url: String,
    /// As `gene_registry_keys`.
    pub(crate) keys_url: String,
}

/// A new database with the default schema and nothing in it.
pub(crate) async fn fresh_database() -> TestDatabase {
    let database = empty_database().await;
    schema::migrate(&mut database.client().await).await.expect("the schema");
    database
}

/// A new database without any schema.
pub(crate) async fn empty_database() -> TestDatabase {
    let server = std::env::var("TEST_DATABASE_URL").expect("TEST_DATABASE_URL, of a superuser");
    let name = format!("test_{}", uuid::Builder::from_random_bytes(random()).into_uuid().simple());
    let admin = connect(&config(&server)).await.expect("a server");
    // Several CREATE DATABASE at once may find their template in use.
    let create = format!("CREATE DATABASE {name}");
    while let Err(error) = admin.batch_execute(&create).await {
        assert_eq!(error.code().map(|code| code.code()), Some("55006"), "{error:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let (before, _) = server.rsplit_once('/').expect("a URL with a database");
    let url = format!("{before}/{name}");
    let (_, address) = before.rsplit_once('@').expect("a URL with a user");
    let as_role = |role: &str| format!("postgres://{role}@{address}/{name}");
    TestDatabase {
        reader_url: as_role("gene_registry_reader"),
        keys_url: as_role("gene_registry_keys"),
        url,
    }
}

fn random() -> [u8; 16] {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).expect("randomness");
    bytes
}

/// The default limits on time, with a margin for a loaded machine.
pub(crate) fn config(url: &str) -> UpstreamConfig {
    UpstreamConfig {
        url: Some(SecretString::from(url.to_owned())),
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
        let seeded = seed::load(&mut self.client().await, genes.into_iter(), now, |_| {}).await;
        assert!(matches!(seeded, Ok(seed::Seeded::Loaded { .. })), "{seeded:?}");
    }
}

/// The install command's template in all tests.
pub(crate) const TEMPLATE: &str = "install {id}";
