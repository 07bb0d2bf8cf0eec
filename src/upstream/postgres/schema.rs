//! The default schema: created and updated by embedded migrations, with two roles that have only the
//! privileges they need.

use thiserror::Error;
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

mod embedded {
    refinery::embed_migrations!("src/upstream/postgres/migrations");
}

/// The result of a migration.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Migrated {
    /// Number of migrations applied; 0 if the schema was up to date.
    pub applied: usize,
    /// What could not be set up because this user lacks a privilege, with the remedy.
    pub warnings: Vec<String>,
}

/// Why the schema could not be changed.
#[derive(Debug, Error)]
pub enum SchemaError {
    /// The database rejected a statement, or the connection was lost.
    #[error("the database rejected a statement, or the connection was lost")]
    Database(#[from] tokio_postgres::Error),
    /// A migration failed, or the recorded migrations are not those of this release.
    #[error("a migration failed")]
    Migration(#[source] Box<refinery::Error>),
}

/// Allows one migration at a time in a database.
const LOCK: &str = "SELECT pg_advisory_lock(hashtext('gene-registry'), hashtext('migrate'))";
const UNLOCK: &str = "SELECT pg_advisory_unlock(hashtext('gene-registry'), hashtext('migrate'))";

const HISTORY: &str = "registry.refinery_schema_history";

/// Creates or updates the default schema. Idempotent; concurrent calls wait for each other.
///
/// # Errors
///
/// The user may not create a schema, or a migration fails, which is rolled back then.
pub async fn migrate(client: &mut Client) -> Result<Migrated, SchemaError> {
    client.batch_execute(LOCK).await?;
    let migrated = migrate_locked(client).await;
    // If this fails, the connection is lost, and the lock with it.
    let unlocked = client.batch_execute(UNLOCK).await;
    let migrated = migrated?;
    unlocked?;
    Ok(migrated)
}

async fn migrate_locked(client: &mut Client) -> Result<Migrated, SchemaError> {
    client.batch_execute("CREATE SCHEMA IF NOT EXISTS registry").await?;
    let mut runner = embedded::migrations::runner();
    runner.set_migration_table_name(HISTORY);
    let report =
        runner.run_async(client).await.map_err(|error| SchemaError::Migration(Box::new(error)))?;
    let mut migrated =
        Migrated { applied: report.applied_migrations().len(), warnings: Vec::new() };
    for role in [&READER, &KEYS] {
        role.create_or_update(client, &mut migrated.warnings).await?;
    }
    Ok(migrated)
}

/// A role with its settings and privileges.
struct Role {
    name: &'static str,
    settings: &'static [&'static str],
    grants: &'static str,
}

/// The role that reads the views, with a statement timeout.
const READER: Role = Role {
    name: "gene_registry_reader",
    settings: &[
        "ALTER ROLE gene_registry_reader SET statement_timeout = '600ms'",
        "ALTER ROLE gene_registry_reader SET default_transaction_read_only = on",
        // JIT compilation takes longer than any of the service's statements.
        "ALTER ROLE gene_registry_reader SET jit = off",
    ],
    grants: "GRANT USAGE ON SCHEMA registry_read TO gene_registry_reader;
        GRANT SELECT ON registry_read.gene, registry_read.arena_evaluation,
            registry_read.api_key, registry_read.change TO gene_registry_reader",
};

/// The role that manages keys.
const KEYS: Role = Role {
    name: "gene_registry_keys",
    settings: &[],
    grants: "GRANT USAGE ON SCHEMA registry TO gene_registry_keys;
        GRANT SELECT, INSERT, UPDATE ON registry.api_key, registry.api_key_usage
            TO gene_registry_keys;
        GRANT SELECT, INSERT ON registry.owner TO gene_registry_keys",
};

impl Role {
    /// Roles belong to the whole cluster: the role may exist already, the migration of another
    /// database may be creating it, and this user may lack the privilege.
    async fn create_or_update(
        &self,
        client: &Client,
        warnings: &mut Vec<String>,
    ) -> Result<(), tokio_postgres::Error> {
        let name = self.name;
        let exists = "SELECT FROM pg_roles WHERE rolname = $1";
        let create = format!("CREATE ROLE {name} LOGIN");
        if client.query_opt(exists, &[&name]).await?.is_none()
            && let Err(error) = client.batch_execute(&create).await
            && !exists_already(&error)
        {
            if !is_forbidden(&error) {
                return Err(error);
            }
            warnings.push(format!(
                "the role {name} does not exist, and this user lacks CREATEROLE. As a \
                 superuser run: {create} PASSWORD '…'; then run migrate again."
            ));
            return Ok(());
        }
        for setting in self.settings {
            match execute_with_retries(client, setting).await {
                Err(error) if is_forbidden(&error) => {
                    warnings.push(format!(
                        "this user may not change the role {name}. As a superuser run: {setting};"
                    ));
                }
                other => other?,
            }
        }
        execute_with_retries(client, self.grants).await
    }
}

/// Executes a statement, with retries while the migration of another database changes the same role,
/// for which Postgres reports an error instead of waiting.
async fn execute_with_retries(client: &Client, sql: &str) -> Result<(), tokio_postgres::Error> {
    for _ in 0..20 {
        match client.batch_execute(sql).await {
            Err(error) if is_concurrent_change(&error) => {
                tokio::time::sleep(std::time::Duration::from_millis(25)).await;
            }
            other => return other,
        }
    }
    client.batch_execute(sql).await
}

fn is_concurrent_change(error: &tokio_postgres::Error) -> bool {
    error.code() == Some(&SqlState::UNIQUE_VIOLATION)
        || error.as_db_error().is_some_and(|e| e.message().contains("concurrently"))
}

fn exists_already(error: &tokio_postgres::Error) -> bool {
    matches!(error.code(), Some(code)
        if *code == SqlState::DUPLICATE_OBJECT || *code == SqlState::UNIQUE_VIOLATION)
}

fn is_forbidden(error: &tokio_postgres::Error) -> bool {
    error.code() == Some(&SqlState::INSUFFICIENT_PRIVILEGE)
}
