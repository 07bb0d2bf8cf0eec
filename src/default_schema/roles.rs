//! The database roles: each has only the privileges that it needs, and what Postgres grants to every
//! role is revoked. Whatever this user may not change becomes a warning with the remedy.

use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

/// A role with its settings and privileges.
struct Role {
    name: &'static str,
    /// Names and values.
    settings: &'static [(&'static str, &'static str)],
    grants: &'static str,
}

/// The role that reads the views, with a statement timeout. Its settings are defaults: a session can
/// change them.
const READER: Role = Role {
    name: "gene_registry_reader",
    settings: &[
        ("statement_timeout", "600ms"),
        ("default_transaction_read_only", "on"),
        // JIT compilation takes longer than any of the service's statements.
        ("jit", "off"),
    ],
    grants: "GRANT USAGE ON SCHEMA registry_read TO gene_registry_reader;
        GRANT SELECT ON registry_read.gene, registry_read.arena_evaluation,
            registry_read.api_key, registry_read.change TO gene_registry_reader",
};

/// The role that records the use of keys.
const USAGE: Role = Role {
    name: "gene_registry_usage",
    settings: &[],
    grants: "GRANT USAGE ON SCHEMA registry TO gene_registry_usage;
        GRANT EXECUTE ON FUNCTION registry.record_key_usage(bytea[], timestamptz[], bigint[])
            TO gene_registry_usage",
};

/// The role that manages keys. Replicas of 1.0 record the use of keys with it, too.
const KEYS: Role = Role {
    name: "gene_registry_keys",
    settings: &[],
    grants: "GRANT USAGE ON SCHEMA registry TO gene_registry_keys;
        GRANT SELECT, INSERT, UPDATE ON registry.api_key, registry.api_key_usage
            TO gene_registry_keys;
        GRANT SELECT, INSERT ON registry.owner TO gene_registry_keys;
        GRANT EXECUTE ON FUNCTION registry.record_key_usage(bytea[], timestamptz[], bigint[])
            TO gene_registry_keys",
};

/// Functions of Postgres that every role may call, and none of the service's roles: those that create
/// and change large objects, those that take advisory locks, of which each occupies shared memory, those
/// that end statements and sessions of the same role, and those that write to the write-ahead log.
const RESTRICTED: &str = "pronamespace = 'pg_catalog'::regnamespace
    AND (proname IN ('lo_creat', 'lo_create', 'lo_from_bytea', 'lo_import', 'lo_open', 'lo_put',
            'lo_truncate', 'lo_truncate64', 'lo_unlink', 'lowrite', 'pg_cancel_backend',
            'pg_logical_emit_message', 'pg_terminate_backend')
        OR proname LIKE 'pg\\_advisory\\_%' OR proname LIKE 'pg\\_try\\_advisory\\_%')";

/// Creates and updates the roles, and revokes what every role has by default. Returns what this user
/// may not do, with the remedies.
pub(super) async fn create_or_update(
    client: &Client,
) -> Result<Vec<String>, tokio_postgres::Error> {
    let mut warnings = Vec::new();
    for role in [&READER, &USAGE, &KEYS] {
        role.create_or_update(client, &mut warnings).await?;
    }
    match execute_with_retries(client, &revoke_from_public()).await {
        Err(error) if is_forbidden(&error) => {}
        other => other?,
    }
    warnings.extend(remaining_privileges(client).await?);
    Ok(warnings)
}

/// Revokes from every role the privileges that these roles must not have. The owner of the schema,
/// who loads it through a temporary table, keeps that privilege. Changes nothing that is not granted.
fn revoke_from_public() -> String {
    format!(
        "DO $$
        DECLARE
            restricted regprocedure;
        BEGIN
            IF has_database_privilege('public', current_database(), 'TEMPORARY') THEN
                EXECUTE format('GRANT TEMPORARY ON DATABASE %I TO %s', current_database(),
                    (SELECT nspowner::regrole FROM pg_namespace WHERE nspname = 'registry'));
                EXECUTE format('REVOKE TEMPORARY ON DATABASE %I FROM PUBLIC', current_database());
            END IF;
            IF EXISTS (SELECT FROM pg_namespace WHERE nspname = 'public'
                    AND has_schema_privilege('public', oid, 'CREATE')) THEN
                REVOKE CREATE ON SCHEMA public FROM PUBLIC;
            END IF;
            FOR restricted IN
                SELECT oid FROM pg_proc
                WHERE {RESTRICTED} AND has_function_privilege('public', oid, 'EXECUTE')
            LOOP
                EXECUTE format('REVOKE EXECUTE ON FUNCTION %s FROM PUBLIC', restricted);
            END LOOP;
        END $$"
    )
}

/// One warning for each privilege that every role still has, because this user could not revoke it.
async fn remaining_privileges(client: &Client) -> Result<Vec<String>, tokio_postgres::Error> {
    let sql = format!(
        "SELECT has_database_privilege('public', current_database(), 'TEMPORARY'),
            EXISTS (SELECT FROM pg_namespace WHERE nspname = 'public'
                AND has_schema_privilege('public', oid, 'CREATE')),
            EXISTS (SELECT FROM pg_proc
                WHERE {RESTRICTED} AND has_function_privilege('public', oid, 'EXECUTE')),
            quote_ident(current_database())"
    );
    let row = client.query_one(&sql, &[]).await?;
    let database: String = row.try_get(3)?;
    let privileges = [
        (
            "create temporary tables",
            format!(
                "As the database's owner run: REVOKE TEMPORARY ON DATABASE {database} FROM PUBLIC;"
            ),
        ),
        (
            "create tables in the schema public",
            "As the schema's owner run: REVOKE CREATE ON SCHEMA public FROM PUBLIC;".to_owned(),
        ),
        (
            "create large objects, take advisory locks, end sessions of its own and write to the \
             write-ahead log",
            "As a superuser run gene-registry migrate once; a managed Postgres may have none."
                .to_owned(),
        ),
    ];
    let mut warnings = Vec::new();
    for (column, (what, remedy)) in privileges.into_iter().enumerate() {
        if row.try_get(column)? {
            warnings.push(format!(
                "every role of this database may {what}, also those of the service, and this user \
                 may not change that. {remedy}"
            ));
        }
    }
    Ok(warnings)
}

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
        for setting in self.missing_settings(client).await? {
            match execute_with_retries(client, &setting).await {
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

    /// The statements for the settings that the role does not have.
    async fn missing_settings(
        &self,
        client: &Client,
    ) -> Result<Vec<String>, tokio_postgres::Error> {
        let name = self.name;
        let sql = "SELECT coalesce(rolconfig, '{}') FROM pg_roles WHERE rolname = $1";
        let row = client.query_opt(sql, &[&name]).await?;
        let present: Vec<String> = row.map_or(Ok(Vec::new()), |row| row.try_get(0))?;
        let missing = self.settings.iter().filter(|(setting, value)| {
            !present.iter().any(|present| *present == format!("{setting}={value}"))
        });
        let statement =
            |(setting, value): &_| format!("ALTER ROLE {name} SET {setting} = '{value}'");
        Ok(missing.map(statement).collect())
    }
}

/// Executes a statement, with retries while another migration changes the same, for which Postgres
/// reports an error instead of waiting.
pub(super) async fn execute_with_retries(
    client: &Client,
    sql: &str,
) -> Result<(), tokio_postgres::Error> {
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
    matches!(error.code(), Some(code)
        if *code == SqlState::UNIQUE_VIOLATION || *code == SqlState::DUPLICATE_TABLE)
        || error.as_db_error().is_some_and(|e| e.message().contains("concurrently"))
}

fn exists_already(error: &tokio_postgres::Error) -> bool {
    matches!(error.code(), Some(code)
        if *code == SqlState::DUPLICATE_OBJECT || *code == SqlState::UNIQUE_VIOLATION)
}

fn is_forbidden(error: &tokio_postgres::Error) -> bool {
    error.code() == Some(&SqlState::INSUFFICIENT_PRIVILEGE)
}
