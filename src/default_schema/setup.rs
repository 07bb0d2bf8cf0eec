//! The SQL by which a superuser prepares a Postgres server: the roles with their passwords, the
//! database and its owner. It leaves nothing for which `migrate` needs more rights than the owner's.

use postgres_protocol::password::scram_sha_256;

use super::roles::{ROLES, revoke_from_public};

/// The roles of the service, which [`setup_sql`] creates after the owner.
pub fn service_roles() -> [&'static str; 3] {
    ROLES.map(|role| role.name)
}

/// A script for psql. `passwords` are those of the database's owner and of [`service_roles`], by
/// role, the owner first. The script has only their SCRAM verifiers. Names need no quotes.
///
/// It changes nothing if one of the roles exists already, or the database.
pub fn setup_sql(database: &str, passwords: &[(&str, &str)]) -> String {
    let owner = passwords.first().map_or("", |(owner, _)| owner);
    let role = |(role, password): &(&str, &str)| {
        let verifier = scram_sha_256(password.as_bytes());
        format!("CREATE ROLE \"{role}\" LOGIN PASSWORD '{verifier}';\n")
    };
    let roles: String = passwords.iter().map(role).collect();
    let settings = ROLES.iter().flat_map(|role| role.settings());
    let settings: String = settings.map(|statement| format!("{statement};\n")).collect();
    format!(
        "\
-- For psql, as a superuser, once. The passwords are in here as SCRAM verifiers only.
\\set ON_ERROR_STOP on
BEGIN;
DO $$ BEGIN
    IF EXISTS (SELECT FROM pg_database WHERE datname = '{database}') THEN
        RAISE EXCEPTION 'the database {database} exists already; nothing was changed';
    END IF;
END $$;
{roles}{settings}COMMIT;
CREATE DATABASE \"{database}\" OWNER \"{owner}\"
    TEMPLATE template0 ENCODING 'UTF8' LC_COLLATE 'C' LC_CTYPE 'C';
\\connect \"{database}\"
-- The roles of the service need none of what Postgres grants to every role.
{};
",
        revoke_from_public()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_script_has_every_role_and_setting_and_no_password() {
        let passwords = [("own", "secret-1"), ("gene_registry_reader", "secret-2")];
        let sql = setup_sql("reg", &passwords);
        for part in [
            "CREATE ROLE \"own\" LOGIN PASSWORD 'SCRAM-SHA-256$4096:",
            "CREATE DATABASE \"reg\" OWNER \"own\"",
            "ALTER ROLE gene_registry_reader SET statement_timeout = '600ms';",
            "\\connect \"reg\"\n",
        ] {
            assert!(sql.contains(part), "{part}: {sql}");
        }
        assert!(!sql.contains("secret"), "{sql}");
    }
}
