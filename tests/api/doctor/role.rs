//! The settings and rights of the database role.

use super::{Findings, as_reader, healthy, of_url};
use crate::support::database::Database;
use crate::support::postgres::PostgresServer;
use crate::support::{need_own_servers, random_hex};

/// What doctor finds as a new role that may read the views, after these statements about `ROLE`.
async fn of_new_role(database: &Database<'_>, statements: &str) -> Findings {
    let (role, owner) = (format!("doctor_{}", random_hex(4)), database.connect().await);
    let create = format!(
        "create role {role} login; grant usage on schema registry_read to {role};
        grant select on all tables in schema registry_read to {role}; {}",
        statements.replace("ROLE", &role)
    );
    owner.batch_execute(&create).await.unwrap();
    let findings = Findings::of(&of_url(&database.url_as(&role))).await;
    let drop = format!("reassign owned by {role} to current_user; drop owned by {role}");
    owner.batch_execute(&format!("{drop}; drop role {role}")).await.unwrap();
    findings
}

#[tokio::test(flavor = "multi_thread")]
async fn the_settings_of_a_superuser_or_owner_are_warnings_that_change_no_role() {
    need_own_servers!();
    let database = healthy(PostgresServer::shared().await).await;
    let of_owner = of_new_role(&database, "alter table registry.gene owner to ROLE").await;
    let of_superuser = Findings::of(&of_url(&database.url())).await;
    for (findings, words) in [(of_superuser, "superuser"), (of_owner, "owns tables")] {
        for words in ["no statement_timeout", "not read-only", words] {
            let remedy = ["such as gene_registry_reader", "migrate --only roles"];
            findings.assert_warning("role", &[words, remedy[0], remedy[1]]);
        }
        assert!(findings.about("role").all(|it| !it.remedy.contains("ALTER")), "{findings:#?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_settings_of_a_role_that_only_reads_are_set_by_a_statement() {
    need_own_servers!();
    let database = healthy(PostgresServer::shared().await).await;
    let findings = of_new_role(&database, "").await;
    findings.assert_warning("role", &["no statement_timeout", "SET statement_timeout = '600ms'"]);
    findings.assert_warning("role", &["not read-only", "SET default_transaction_read_only = on"]);
    findings.assert_only(&["role"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn rights_that_are_not_needed_are_warnings() {
    need_own_servers!();
    let database = healthy(PostgresServer::shared().await).await;
    let name = database.name();
    let grants = format!(
        "alter role ROLE set statement_timeout = '1min';
        alter role ROLE set default_transaction_read_only = on;
        grant usage on schema registry to ROLE;
        grant delete on registry.gene to ROLE;
        grant create on schema public to ROLE;
        grant temporary on database {name} to ROLE"
    );
    let findings = of_new_role(&database, &grants).await;
    findings.assert_warning("role", &["60000 ms", "upstream.deadline_ms (2000 ms)"]);
    findings.assert_warning("role", &["may change tables or views"]);
    findings.assert_warning("role", &["may create schemas, tables"]);
    let revoke = format!("REVOKE TEMPORARY ON DATABASE {name} FROM PUBLIC;");
    findings.assert_warning("role", &["If nothing else in the database needs", &revoke]);
    findings.assert_only(&["role"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_rights_on_keys_are_serious() {
    need_own_servers!();
    let database = healthy(PostgresServer::shared().await).await;
    let mut config = as_reader(&database);
    config.control.database_url = Some(database.url_as("gene_registry_keys").into());
    config.keys.usage_database_url = Some(database.url_as("gene_registry_usage").into());
    Findings::of(&config).await.assert_only(&[]);

    let revoke = "revoke update on registry.api_key from gene_registry_keys;
        revoke execute on function
            registry.record_key_usage(bytea[], timestamptz[], bigint[]) from gene_registry_usage";
    database.connect().await.batch_execute(revoke).await.unwrap();
    let findings = Findings::of(&config).await;
    let words = ["control.database_url", "UPDATE on registry.api_key"];
    findings.assert_serious("key databases", &words);
    let words = ["keys.usage_database_url", "registry.record_key_usage"];
    findings.assert_serious("key databases", &words);
    findings.assert_only(&["key databases"]);
}
