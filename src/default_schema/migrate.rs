//! The default schema: created and updated by embedded migrations, with roles that have only the
//! privileges they need.

use thiserror::Error;
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Transaction};

use super::roles;
use crate::registry::Timestamp;

mod embedded {
    refinery::embed_migrations!("src/default_schema/migrations");
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
    /// A migration failed. None was applied.
    #[error("migration {0} failed; the schema is unchanged")]
    Migration(String, #[source] tokio_postgres::Error),
    /// The database has a migration that this release does not have, or has with another text.
    #[error(
        "the database has migration {0}, which is not one of this release; use the release that \
         applied it, or a later one"
    )]
    OtherRelease(String),
}

/// The applied migrations, in the table and form that the crate `refinery` defines.
const HISTORY: &str = "CREATE SCHEMA IF NOT EXISTS registry;
    CREATE TABLE IF NOT EXISTS registry.refinery_schema_history
        (version int4 PRIMARY KEY, name varchar(255), applied_on varchar(255), checksum varchar(255))";

/// Allows one migration at a time in a database. Unlike an advisory lock, only those who may change the
/// table can take it.
const LOCK: &str = "LOCK TABLE registry.refinery_schema_history IN SHARE ROW EXCLUSIVE MODE";

const APPLIED: &str = "SELECT version, name, checksum FROM registry.refinery_schema_history
    ORDER BY version";

const INSERT: &str = "INSERT INTO registry.refinery_schema_history
    (version, name, applied_on, checksum) VALUES ($1, $2, $3, $4)";

/// Creates or updates the default schema and the roles. Idempotent; concurrent calls wait for each
/// other.
///
/// # Errors
///
/// The user may not create a schema, or a migration fails; then none is applied.
pub async fn migrate(client: &mut Client) -> Result<Migrated, SchemaError> {
    roles::execute_with_retries(client, HISTORY).await?;
    let transaction = client.transaction().await?;
    transaction.batch_execute(LOCK).await?;
    let applied = apply_missing(&transaction).await?;
    transaction.commit().await?;
    let warnings = roles::create_or_update(client).await?;
    Ok(Migrated { applied, warnings })
}

/// Applies the migrations that the database does not have yet; returns how many.
async fn apply_missing(transaction: &Transaction<'_>) -> Result<usize, SchemaError> {
    let runner = embedded::migrations::runner();
    let mut missing: Vec<_> = runner.get_migrations().iter().collect();
    missing.sort_by_key(|migration| migration.version());
    for row in transaction.query_typed(APPLIED, &[]).await? {
        let version: i32 = row.try_get(0)?;
        let (name, checksum): (String, String) = (row.try_get(1)?, row.try_get(2)?);
        let known = missing.iter().position(|migration| {
            (migration.version(), migration.name()) == (version, name.as_str())
                && migration.checksum().to_string() == checksum
        });
        let known =
            known.ok_or_else(|| SchemaError::OtherRelease(format!("V{version}__{name}")))?;
        missing.remove(known);
    }
    for migration in &missing {
        let failed = |error| SchemaError::Migration(migration.to_string(), error);
        transaction.batch_execute(migration.sql().unwrap_or_default()).await.map_err(failed)?;
        let (version, name) = (migration.version(), migration.name());
        let (now, checksum) = (Timestamp::now().to_string(), migration.checksum().to_string());
        let values: [(&(dyn tokio_postgres::types::ToSql + Sync), Type); 4] = [
            (&version, Type::INT4),
            (&name, Type::VARCHAR),
            (&now, Type::VARCHAR),
            (&checksum, Type::VARCHAR),
        ];
        transaction.execute_typed(INSERT, &values).await.map_err(failed)?;
    }
    Ok(missing.len())
}
