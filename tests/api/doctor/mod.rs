//! `gene-registry doctor`: each fault is caused once, and found.

mod change_log;
mod command;
mod database;
mod indexes;
mod keys;
mod redis;
mod resources;
mod role;
mod rows;
mod standbys;
mod text;
mod triggers;
mod views;

use gene_registry::config::Config;
use gene_registry::default_schema::migrate;
use gene_registry::doctor::{self, Finding, Severity};

use crate::support::database::Database;
use crate::support::postgres::PostgresServer;
use crate::support::replica::{READER, config, sample};

/// The sample registry. Migrated again, since a copy of a database lacks its privileges.
pub(crate) async fn healthy(server: &PostgresServer) -> Database<'_> {
    let database = sample(server).await;
    migrate::migrate(&mut database.connect().await).await.unwrap();
    database
}

/// The default configuration for a reader of this database, without Redis.
pub(crate) fn as_reader(database: &Database<'_>) -> Config {
    of_url(&database.url_as(READER))
}

pub(crate) fn of_url(url: &str) -> Config {
    let mut config = config(url, None);
    // Fewer than the open files that a shell may have.
    config.server.max_connections = 100;
    // The machine may be loaded.
    config.upstream.query_ms = 20_000;
    config
}

/// The findings about the sample registry after these statements.
async fn after(statements: &str) -> Findings {
    let database = healthy(PostgresServer::shared().await).await;
    database.connect().await.batch_execute(statements).await.unwrap();
    Findings::of(&as_reader(&database)).await
}

fn is_problem(finding: &Finding) -> bool {
    matches!(finding.severity, Severity::Serious | Severity::Warning)
}

/// What doctor finds.
#[derive(Debug)]
pub(crate) struct Findings(Vec<Finding>);

impl Findings {
    pub(crate) async fn of(config: &Config) -> Self {
        Self(doctor::check(config).await)
    }

    fn about<'a>(&'a self, check: &'a str) -> impl Iterator<Item = &'a Finding> {
        let is_found = move |it: &&Finding| it.check == check && is_problem(it);
        self.0.iter().filter(is_found)
    }

    /// Checks that there is one finding of this severity and check whose line has all of these words.
    #[track_caller]
    fn assert_one(&self, severity: Severity, check: &str, words: &[&str]) {
        let is_it = |it: &&Finding| {
            let line = it.to_string();
            it.severity == severity && words.iter().all(|word| line.contains(word))
        };
        let found: Vec<_> = self.about(check).filter(is_it).collect();
        assert_eq!(found.len(), 1, "{severity:?} {check} {words:?}: {self:#?}");
        assert!(!found[0].remedy.is_empty(), "{:?}", found[0]);
    }

    #[track_caller]
    fn assert_serious(&self, check: &str, words: &[&str]) {
        self.assert_one(Severity::Serious, check, words);
    }

    #[track_caller]
    fn assert_warning(&self, check: &str, words: &[&str]) {
        self.assert_one(Severity::Warning, check, words);
    }

    /// Checks that these are the only checks that found something.
    #[track_caller]
    pub(crate) fn assert_only(&self, checks: &[&str]) {
        let others = self.0.iter().filter(|it| is_problem(it));
        let others: Vec<_> = others.filter(|it| !checks.contains(&it.check)).collect();
        assert!(others.is_empty(), "{others:#?}");
    }
}
