//! The default schema: created and updated by embedded migrations, with roles that have only the
//! privileges they need.

use thiserror::Error;
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Transaction};

use super::error::StatementError;
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
    /// What could not be set up because this user lacks a privilege, with the remedy; or that a later
    /// release has migrated the database.
    pub warnings: Vec<String>,
}

/// Why the schema could not be changed.
#[derive(Debug, Error)]
pub enum SchemaError {
    /// A statement failed.
    #[error(transparent)]
    Database(StatementError),
    /// A migration failed. None was applied.
    #[error("migration {0} failed; the schema is unchanged")]
    Migration(String, #[source] tokio_postgres::Error),
    /// The database has a migration that is neither one of this release nor later than all of them.
    #[error(
        "the database has migration {0}, which is not one of this release; use the release that \
         applied it, or a later one"
    )]
    OtherRelease(String),
    /// This user may not create a schema in the database.
    #[error(
        "this user may not create schemas in this database. As a superuser or the owner of the \
         database run: GRANT CREATE ON DATABASE {database} TO {user}; then run the same command again"
    )]
    CannotCreateSchemas {
        /// The database.
        database: String,
        /// The user.
        user: String,
        /// The error of the database.
        source: tokio_postgres::Error,
    },
    /// The views exist, but no migration has created them.
    #[error(
        "the schema registry_read exists already, and no migration has created it; nothing was \
         changed. For a registry that has views of its own, run: gene-registry migrate --only \
         roles,change-log"
    )]
    OwnViews,
    /// There is nothing that a role could read.
    #[error(
        "this database has none of the views in the schema registry_read; create them first \
         (docs/upstream.md)"
    )]
    NoViews,
}

impl From<tokio_postgres::Error> for SchemaError {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Database(error.into())
    }
}

/// The applied migrations, in the table and form that the crate `refinery` defines.
const HISTORY: &str = "CREATE SCHEMA IF NOT EXISTS registry;
    CREATE TABLE IF NOT EXISTS registry.refinery_schema_history
        (version int4 PRIMARY KEY, name varchar(255), applied_on varchar(255), checksum varchar(255))";

/// Allows one migration at a time in a database. Unlike an advisory lock, only those who may change the
/// table can take it. A client that stalls does not keep its locks.
const LOCK: &str = "SET LOCAL idle_in_transaction_session_timeout = '10s';
    LOCK TABLE registry.refinery_schema_history IN SHARE ROW EXCLUSIVE MODE";

const APPLIED: &str = "SELECT version, name, checksum FROM registry.refinery_schema_history
    ORDER BY version";

const INSERT: &str = "INSERT INTO registry.refinery_schema_history
    (version, name, applied_on, checksum) VALUES ($1, $2, $3, $4)";

/// The change log for views of another schema. What writes to it is the same as in the default schema.
const CHANGE_LOG: &str = concat!(
    include_str!("change_log.sql"),
    include_str!("migrations/V5__change_of_all_genes_or_keys.sql"),
    "REVOKE ALL ON FUNCTION registry.log_genes(uuid[], text[]), registry.log_keys(bytea[]) FROM PUBLIC"
);

/// Whether the views exist, but no migration has created them.
pub(super) const HAS_OWN_VIEWS: &str = "SELECT to_regnamespace('registry_read') IS NOT NULL
    AND to_regclass('registry.refinery_schema_history') IS NULL";

/// Creates or updates the default schema and the roles. Idempotent; concurrent calls wait for each
/// other.
///
/// # Errors
///
/// The user may not create a schema, or a migration fails; then none is applied.
pub async fn migrate(client: &mut Client) -> Result<Migrated, SchemaError> {
    if client.query_one(HAS_OWN_VIEWS, &[]).await?.try_get(0)? {
        return Err(SchemaError::OwnViews);
    }
    if let Err(error) = roles::execute_with_retries(client, HISTORY).await {
        return Err(with_remedy(client, error).await);
    }
    let transaction = client.transaction().await?;
    transaction.batch_execute(LOCK).await?;
    let mut migrated = apply_missing(&transaction).await?;
    transaction.commit().await?;
    // A later release has set up the roles, too.
    if migrated.warnings.is_empty() {
        migrated.warnings = roles::create_or_update(client).await?;
    }
    Ok(migrated)
}

/// Creates the change log of a registry that has views of its own. Idempotent; the default schema has
/// a change log already.
///
/// # Errors
///
/// The user may not create a schema, or owns something of the change log not.
pub async fn create_change_log(client: &Client) -> Result<(), SchemaError> {
    let is_default = "SELECT to_regclass('registry.refinery_schema_history') IS NOT NULL";
    if client.query_one(is_default, &[]).await?.try_get(0)? {
        return Ok(());
    }
    match roles::execute_with_retries(client, CHANGE_LOG).await {
        Ok(()) => Ok(()),
        Err(error) => Err(with_remedy(client, error).await),
    }
}

/// Creates and updates the roles that can use something in this database: the reader of its views
/// and, with the default schema, the others. Returns the names of those that exist now, and the warnings of [`Migrated`].
///
/// # Errors
///
/// [`SchemaError::NoViews`], [`SchemaError::Database`].
pub async fn create_roles(
    client: &Client,
) -> Result<(Vec<&'static str>, Vec<String>), SchemaError> {
    let (roles, warnings) = roles::create_useful(client).await?;
    match (roles.is_empty(), warnings.is_empty()) {
        (true, true) => Err(SchemaError::NoViews),
        _ => Ok((roles, warnings)),
    }
}

/// The error of a statement that creates a schema.
async fn with_remedy(client: &Client, error: tokio_postgres::Error) -> SchemaError {
    // If the schema exists, its owner is the user who may migrate.
    let names = "SELECT quote_ident(current_database()), quote_ident(current_user)
        WHERE to_regnamespace('registry') IS NULL";
    match client.query_opt(names, &[]).await {
        Ok(Some(row)) if roles::is_forbidden(&error) => SchemaError::CannotCreateSchemas {
            database: row.get(0),
            user: row.get(1),
            source: error,
        },
        _ => error.into(),
    }
}

/// Applies the migrations that the database does not have yet. Warns if it has one of a later release.
async fn apply_missing(transaction: &Transaction<'_>) -> Result<Migrated, SchemaError> {
    let runner = embedded::migrations::runner();
    let mut missing: Vec<_> = runner.get_migrations().iter().collect();
    missing.sort_by_key(|migration| migration.version());
    let last = missing.last().map_or(0, |migration| migration.version());
    let mut warnings = Vec::new();
    for row in transaction.query_typed(APPLIED, &[]).await? {
        let version: i32 = row.try_get(0)?;
        let (name, checksum): (String, String) = (row.try_get(1)?, row.try_get(2)?);
        let known = missing.iter().position(|migration| {
            (migration.version(), migration.name()) == (version, name.as_str())
                && migration.checksum().to_string() == checksum
        });
        let described = format!("V{version}__{name}");
        match known {
            Some(known) => _ = missing.remove(known),
            // In the order of versions: whatever is missing by now was never applied.
            None if version > last && missing.is_empty() => {
                warnings = vec![format!(
                    "a later release has migrated this database ({described}), so nothing was changed. \
                 This release works with it, because migrations only add"
                )]
            }
            None => return Err(SchemaError::OtherRelease(described)),
        }
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
    Ok(Migrated { applied: missing.len(), warnings })
}
