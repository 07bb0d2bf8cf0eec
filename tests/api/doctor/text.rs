//! Encodings and collations.

use super::{Findings, after, of_url};
use crate::support::need_own_servers;
use crate::support::postgres::{PostgresOptions, PostgresServer, connect};
use crate::support::replica::READER;
use gene_registry::default_schema::migrate;

#[tokio::test(flavor = "multi_thread")]
async fn encodings_without_all_characters_are_warnings() {
    need_own_servers!();
    let server = PostgresServer::start(PostgresOptions::default()).await;
    for encoding in ["LATIN1", "SQL_ASCII"] {
        let name = encoding.to_lowercase();
        let create =
            format!("create database {name} encoding '{encoding}' locale 'C' template template0");
        server.admin().await.batch_execute(&create).await.unwrap();
        let mut owner = connect(&server.url(&name, &server.superuser())).await;
        migrate::migrate(&mut owner).await.unwrap();

        let findings = Findings::of(&of_url(&server.url(&name, READER))).await;

        findings.assert_warning("text", &[&format!("encoding {encoding}"), "UTF8"]);
        findings.assert_only(&["text"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn columns_with_nondeterministic_collations_are_warnings() {
    let findings = after(
        "create collation registry.insensitive
            (provider = icu, locale = 'und-u-ks-level1', deterministic = false);
        alter view registry_read.gene rename to exact;
        create view registry_read.gene as
            select id, name, domain collate registry.insensitive as domain, fidelity, description,
                owner, fitness_score, reputation_score, downloads, arena_rank, phenotype,
                install_command, min_playground_version, required_fidelity
            from registry_read.exact;
        grant select on registry_read.gene to gene_registry_reader",
    )
    .await;
    let remedy = "domain COLLATE \"C\" AS domain";
    findings.assert_warning("text", &["registry_read.gene.domain", "nondeterministic", remedy]);
    assert_eq!(findings.about("text").count(), 1, "{findings:#?}");
}
