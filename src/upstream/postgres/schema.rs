//! The default schema: made and brought up to date by embedded migrations, with the two roles
//! that need no more than they are given.

use thiserror::Error;
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

mod embedded {
    refinery::embed_migrations!("src/upstream/postgres/migrations");
}

/// What a migration did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Migrated {
    /// Migrations applied; none on a schema that was up to date.
    pub applied: usize,
    /// What could not be set up with this user's rights, for an operator to read.
    pub warnings: Vec<String>,
}

/// Why the schema could not be changed.
#[derive(Debug, Error)]
pub enum SchemaError {
    /// The database refused a statement, or went away.
    #[error("the database refused a statement, or went away")]
    Database(#[from] tokio_postgres::Error),
    /// A migration failed, or what is recorded does not fit this release.
    #[error("a migration failed")]
    Migration(#[source] Box<refinery::Error>),
}

/// Of migrations in one database, one runs at a time.
const LOCK: &str = "SELECT pg_advisory_lock(hashtext('gene-registry'), hashtext('migrate'))";
const UNLOCK: &str = "SELECT pg_advisory_unlock(hashtext('gene-registry'), hashtext('migrate'))";

const HISTORY: &str = "registry.refinery_schema_history";

/// Creates the default schema, or brings it up to date. Idempotent; several at once wait for
/// each other.
///
/// # Errors
///
/// The user may not create a schema, or a migration fails; nothing of it is left then.
pub async fn migrate(client: &mut Client) -> Result<Migrated, SchemaError> {
    client.batch_execute(LOCK).await?;
    let migrated = migrate_alone(client).await;
    // Where this fails the connection is gone, and the lock with it.
    let unlocked = client.batch_execute(UNLOCK).await;
    let migrated = migrated?;
    unlocked?;
    Ok(migrated)
}

async fn migrate_alone(client: &mut Client) -> Result<Migrated, SchemaError> {
    client.batch_execute("CREATE SCHEMA IF NOT EXISTS registry").await?;
    let mut runner = embedded::migrations::runner();
    runner.set_migration_table_name(HISTORY);
    let report =
        runner.run_async(client).await.map_err(|error| SchemaError::Migration(Box::new(error)))?;
    let mut migrated =
        Migrated { applied: report.applied_migrations().len(), warnings: Vec::new() };
    for role in [&READER, &KEYS] {
        role.set_up(client, &mut migrated.warnings).await?;
    }
    Ok(migrated)
}

/// A role and all that it may do.
struct Role {
    name: &'static str,
    create: &'static str,
    settings: &'static [&'static str],
    grants: &'static str,
}

/// Reads the views, for a bounded time, and can do nothing else.
const READER: Role = Role {
    name: "gene_registry_reader",
    create: "CREATE ROLE gene_registry_reader LOGIN",
    settings: &[
        "ALTER ROLE gene_registry_reader SET statement_timeout = '600ms'",
        "ALTER ROLE gene_registry_reader SET default_transaction_read_only = on",
        // Compiling a plan takes longer than any of the service's statements.
        "ALTER ROLE gene_registry_reader SET jit = off",
    ],
    grants: "GRANT USAGE ON SCHEMA registry_read TO gene_registry_reader;
        GRANT SELECT ON registry_read.gene, registry_read.arena_evaluation,
            registry_read.api_key, registry_read.change TO gene_registry_reader",
};

/// Manages keys.
const KEYS: Role = Role {
    name: "gene_registry_keys",
    create: "CREATE ROLE gene_registry_keys LOGIN",
    settings: &[],
    grants: "GRANT USAGE ON SCHEMA registry TO gene_registry_keys;
        GRANT SELECT, INSERT, UPDATE ON registry.api_key, registry.api_key_usage
            TO gene_registry_keys;
        GRANT SELECT, INSERT ON registry.owner TO gene_registry_keys",
};

impl Role {
    /// Roles belong to the whole cluster: they may be there already, another database's
    /// migration may be making them, and this user may not be allowed to.
    async fn set_up(
        &self,
        client: &Client,
        warnings: &mut Vec<String>,
    ) -> Result<(), tokio_postgres::Error> {
        let name = self.name;
        if !self.exists(client).await? {
            match client.batch_execute(self.create).await {
                Ok(()) => {}
                Err(error) if somebody_else_did(&error) => {}
                Err(error) if is_forbidden(&error) => {
                    warnings.push(format!("this user may not create the role {name}"));
                    return Ok(());
                }
                Err(error) => return Err(error),
            }
        }
        for setting in self.settings {
            match persistently(client, setting).await {
                Err(error) if is_forbidden(&error) => {
                    warnings.push(format!("this user may not do: {setting}"));
                }
                other => other?,
            }
        }
        persistently(client, self.grants).await
    }

    async fn exists(&self, client: &Client) -> Result<bool, tokio_postgres::Error> {
        let sql = "SELECT FROM pg_roles WHERE rolname = $1";
        Ok(client.query_opt(sql, &[&self.name]).await?.is_some())
    }
}

/// Tries again where another database's migration changed the role in the same moment, which
/// Postgres answers with an error instead of a wait.
async fn persistently(client: &Client, sql: &str) -> Result<(), tokio_postgres::Error> {
    for _ in 0..20 {
        match client.batch_execute(sql).await {
            Err(error) if is_simultaneous(&error) => {
                tokio::time::sleep(std::time::Duration::from_millis(25)).await;
            }
            other => return other,
        }
    }
    client.batch_execute(sql).await
}

fn is_simultaneous(error: &tokio_postgres::Error) -> bool {
    error.code() == Some(&SqlState::UNIQUE_VIOLATION)
        || error.as_db_error().is_some_and(|e| e.message().contains("concurrently"))
}

fn somebody_else_did(error: &tokio_postgres::Error) -> bool {
    matches!(error.code(), Some(code)
        if *code == SqlState::DUPLICATE_OBJECT || *code == SqlState::UNIQUE_VIOLATION)
}

fn is_forbidden(error: &tokio_postgres::Error) -> bool {
    error.code() == Some(&SqlState::INSUFFICIENT_PRIVILEGE)
}
