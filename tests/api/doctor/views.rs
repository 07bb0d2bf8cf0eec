//! The views and their columns.

use super::after;

#[tokio::test(flavor = "multi_thread")]
async fn missing_views_and_rights_are_serious() {
    let findings = after("drop schema registry_read cascade").await;
    findings.assert_serious("views", &["no schema registry_read", "gene-registry migrate"]);

    let findings = after("revoke usage on schema registry_read from gene_registry_reader").await;
    let grant = "GRANT USAGE ON SCHEMA registry_read TO gene_registry_reader;";
    findings.assert_serious("views", &["may not use the schema", grant]);

    let findings = after(
        "alter view registry_read.gene rename to elsewhere;
        revoke select on registry_read.api_key from gene_registry_reader",
    )
    .await;
    findings.assert_serious("views", &["no view registry_read.gene", "id uuid"]);
    let grant = "GRANT SELECT ON registry_read.api_key TO gene_registry_reader;";
    findings.assert_serious("views", &["may not read registry_read.api_key", grant]);
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_columns_and_wrong_types_are_findings() {
    let findings = after(
        "drop view registry_read.gene, registry_read.arena_evaluation, registry_read.api_key;
        create view registry_read.gene as
            select g.id, g.name::varchar, g.domain, g.fidelity, g.description,
                g.fitness_score::numeric, g.reputation_score, g.downloads::int, g.arena_rank,
                g.phenotype::json, g.install_command, g.min_playground_version,
                g.required_fidelity
            from registry.gene g where g.published;
        create view registry_read.arena_evaluation as
            select gene_id::text, fitness_value, evaluated_at::timestamp, total_calls
            from registry.arena_evaluation;
        create view registry_read.api_key as
            select encode(key_hash, 'hex') as key_hash, prefix, owner, name, scopes,
                rate_limit_per_minute, created_at, expires_at::timestamp, revoked_at
            from registry.api_key;
        grant select on all tables in schema registry_read to gene_registry_reader",
    )
    .await;
    findings.assert_serious("views", &["registry_read.gene has no column owner", "NULL::text"]);
    for (column, cause, remedy) in [
        ("arena_evaluation.gene_id", "text instead of uuid", "gene_id::uuid"),
        ("arena_evaluation.evaluated_at", "timestamp without", "AT TIME ZONE 'UTC'"),
        ("api_key.key_hash", "text instead of bytea", "key_hash::bytea"),
        ("api_key.expires_at", "timestamp without", "expires_at AT TIME ZONE 'UTC' AS expires_at"),
    ] {
        findings.assert_serious("views", &[&format!("registry_read.{column} has"), cause, remedy]);
    }
    let cause = "numeric instead of double precision";
    findings.assert_warning("views", &["registry_read.gene.fitness_score has", cause]);
    assert_eq!(findings.about("views").count(), 6, "{findings:#?}");
}
