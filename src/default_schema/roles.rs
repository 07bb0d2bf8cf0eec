//! The database roles: each has only the privileges that it needs, and what Postgres grants to every
//! role is revoked. Whatever this user may not change becomes a warning with the remedy.

use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

/// A role with its settings and privileges.
pub(super) struct Role {
    pub(super) name: &'static str,
    /// Names and values.
    settings: &'static [(&'static str, &'static str)],
    grants: &'static [Grant],
}

/// Privileges on an object: `SELECT`, `TABLE`, `registry_read.gene`.
struct Grant(&'static str, &'static str, &'static str);

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
    grants: &[
        Grant("USAGE", SCHEMA, "registry_read"),
        Grant("SELECT", TABLE, "registry_read.gene"),
        Grant("SELECT", TABLE, "registry_read.arena_evaluation"),
        Grant("SELECT", TABLE, "registry_read.api_key"),
        Grant("SELECT", TABLE, "registry_read.change"),
    ],
};

/// The role that records the use of keys.
const USAGE: Role = Role {
    name: "gene_registry_usage",
    settings: &[],
    grants: &[Grant("USAGE", SCHEMA, "registry"), Grant("EXECUTE", FUNCTION, RECORD_USAGE)],
};

/// The role that manages keys. Replicas of 1.0 record the use of keys with it, too.
const KEYS: Role = Role {
    name: "gene_registry_keys",
    settings: &[],
    grants: &[
        Grant("USAGE", SCHEMA, "registry"),
        Grant("SELECT, INSERT, UPDATE", TABLE, "registry.api_key"),
        Grant("SELECT, INSERT, UPDATE", TABLE, "registry.api_key_usage"),
        Grant("SELECT, INSERT", TABLE, "registry.owner"),
        Grant("EXECUTE", FUNCTION, RECORD_USAGE),
    ],
};

pub(super) const ROLES: [&Role; 3] = [&READER, &USAGE, &KEYS];

const SCHEMA: &str = "SCHEMA";
const TABLE: &str = "TABLE";
const FUNCTION: &str = "FUNCTION";
const RECORD_USAGE: &str = "registry.record_key_usage(bytea[], timestamptz[], bigint[])";

/// Functions of Postgres that every role may call, and none of the service's roles: those that create
/// and change large objects, those that take advisory locks, of which each occupies shared memory, those
/// that end statements and sessions of the same role, and those that write to the write-ahead log or, for
/// each exported snapshot, a file.
const RESTRICTED: &str = "pronamespace = 'pg_catalog'::regnamespace
    AND (proname IN ('lo_creat', 'lo_create', 'lo_from_bytea', 'lo_import', 'lo_open', 'lo_put',
            'lo_truncate', 'lo_truncate64', 'lo_unlink', 'lowrite', 'pg_cancel_backend',
            'pg_export_snapshot', 'pg_logical_emit_message', 'pg_terminate_backend')
        OR proname LIKE 'pg\\_advisory\\_%' OR proname LIKE 'pg\\_try\\_advisory\\_%')";

/// Creates and updates the roles, and revokes what every role has by default. Returns what this user
/// may not do, with the remedies.
pub(super) async fn create_or_update(
    client: &Client,
) -> Result<Vec<String>, tokio_postgres::Error> {
    let mut warnings = Vec::new();
    for role in ROLES {
        role.create_or_update(client, &mut warnings).await?;
    }
    match execute_with_retries(client, &revoke_from_public()).await {
        Err(error) if is_forbidden(&error) => {}
        other => other?,
    }
    warnings.extend(remaining_privileges(client).await?);
    Ok(warnings)
}

/// Creates and updates the roles that can use something in this database. Returns the names of those
/// that exist now, and what this user may not do, with the remedies.
pub(super) async fn create_useful(
    client: &Client,
) -> Result<(Vec<&'static str>, Vec<String>), tokio_postgres::Error> {
    let (mut present, mut warnings) = (Vec::new(), Vec::new());
    for role in ROLES {
        let existing = role.existing_objects(client).await?;
        let is_useful = existing.iter().any(|Grant(_, kind, _)| *kind != SCHEMA);
        if is_useful && role.create_or_update(client, &mut warnings).await? {
            present.push(role.name);
        }
    }
    Ok((present, warnings))
}

/// Revokes from every role the privileges that these roles must not have. The owner of the schema,
/// who loads it through a temporary table, keeps that privilege. Changes nothing that is not granted.
pub(super) fn revoke_from_public() -> String {
    format!(
        "DO $$
        DECLARE
            restricted regprocedure;
        BEGIN
            IF has_database_privilege('public', current_database(), 'TEMPORARY') THEN
                EXECUTE format('GRANT TEMPORARY ON DATABASE %I TO %s', current_database(),
                    (SELECT coalesce((SELECT nspowner FROM pg_namespace WHERE nspname = 'registry'),
                        datdba)::regrole FROM pg_database WHERE datname = current_database()));
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
                "If nothing else in the database needs them, as its owner run: REVOKE TEMPORARY ON \
                 DATABASE {database} FROM PUBLIC;"
            ),
        ),
        (
            "create tables in the schema public",
            "As the schema's owner run: REVOKE CREATE ON SCHEMA public FROM PUBLIC;".to_owned(),
        ),
        (
            "create large objects, take advisory locks, end their own sessions, export snapshots and \
             write to the write-ahead log",
            "If there is a superuser, run gene-registry migrate once as that user; a managed \
             Postgres may have none."
                .to_owned(),
        ),
    ];
    let mut warnings = Vec::new();
    for (column, (what, remedy)) in privileges.into_iter().enumerate() {
        if row.try_get(column)? {
            warnings.push(format!(
                "all roles, including the service's, can {what}. This user lacks the right to \
                 revoke that. {remedy}"
            ));
        }
    }
    Ok(warnings)
}

impl Role {
    /// Roles belong to the whole cluster: the role may exist already, the migration of another
    /// database may be creating it, and this user may lack the privilege. Returns whether it exists
    /// now.
    async fn create_or_update(
        &self,
        client: &Client,
        warnings: &mut Vec<String>,
    ) -> Result<bool, tokio_postgres::Error> {
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
            let settings: String =
                self.settings().map(|statement| format!(" {statement};")).collect();
            warnings.push(format!(
                "the role {name} does not exist, and this user lacks CREATEROLE. As a superuser run: \
                 {create} PASSWORD '…';{settings} then run the same command again."
            ));
            return Ok(false);
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
        let grants = self.existing_objects(client).await?.into_iter();
        let grants = grants.map(|Grant(privileges, kind, object)| {
            format!("GRANT {privileges} ON {kind} {object} TO {name};")
        });
        execute_with_retries(client, &grants.collect::<String>()).await?;
        Ok(true)
    }

    /// The privileges on objects that this database has.
    async fn existing_objects(
        &self,
        client: &Client,
    ) -> Result<Vec<&'static Grant>, tokio_postgres::Error> {
        let mut existing = Vec::new();
        for grant in self.grants {
            let Grant(_, kind, object) = grant;
            let find = match *kind {
                SCHEMA => "to_regnamespace",
                TABLE => "to_regclass",
                _ => "to_regprocedure",
            };
            let sql = format!("SELECT {find}($1) IS NOT NULL");
            if client.query_one(&sql, &[object]).await?.try_get(0)? {
                existing.push(grant);
            }
        }
        Ok(existing)
    }

    /// The statements for all its settings.
    pub(super) fn settings(&self) -> impl Iterator<Item = String> {
        let statement =
            |(setting, value): &_| format!("ALTER ROLE {} SET {setting} = '{value}'", self.name);
        self.settings.iter().map(statement)
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
        let statements = self.settings().zip(self.settings);
        let missing = statements.filter(|(_, (setting, value))| {
            !present.iter().any(|present| *present == format!("{setting}={value}"))
        });
        Ok(missing.map(|(statement, _)| statement).collect())
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

pub(super) fn is_forbidden(error: &tokio_postgres::Error) -> bool {
    error.code() == Some(&SqlState::INSUFFICIENT_PRIVILEGE)
}
