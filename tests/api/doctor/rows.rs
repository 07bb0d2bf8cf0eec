//! Rows that violate the contract of the views.

use super::after;

#[tokio::test(flavor = "multi_thread")]
async fn rows_that_violate_the_contract_are_counted_with_an_example() {
    let findings = after(
        "create table registry.foreign_gene as select * from registry_read.gene;
        create table registry.foreign_key as select * from registry_read.api_key;
        create table registry.foreign_evaluation as select * from registry_read.arena_evaluation;
        insert into registry.foreign_gene (id, domain, fidelity, fitness_score, required_fidelity)
            values (null, 'd', 'Native', 1, null),
            ('00000000-0000-0000-0000-000000000001', 'd', 'native', 1, null),
            ('00000000-0000-0000-0000-000000000002', 'd', 'Native', 'NaN', null),
            ('00000000-0000-0000-0000-000000000003', 'd', 'Native', 1, 'none'),
            ('00000000-0000-0000-0000-000000000004', '', 'Native', 1, null),
            ('00000000-0000-0000-0000-000000000005', e'a\\nb', 'Native', 1, null),
            ('00000000-0000-0000-0000-000000000006', 'd', 'Native', 1, null),
            ('00000000-0000-0000-0000-000000000006', 'd', 'Native', 1, null),
            ('00000000-0000-0000-0000-000000000007', null, 'Native', 1, null);
        insert into registry.foreign_evaluation values
            (null, 1, now(), 1), (gen_random_uuid(), -1, now(), 1),
            (gen_random_uuid(), 1, 'infinity', 1);
        insert into registry.foreign_key (key_hash, prefix) values
            ('too short', 'short'), (sha256('a'), 'one'), (sha256('a'), 'two');
        drop view registry_read.gene, registry_read.api_key, registry_read.arena_evaluation;
        create view registry_read.gene as select * from registry.foreign_gene;
        create view registry_read.api_key as select * from registry.foreign_key;
        create view registry_read.arena_evaluation as select * from registry.foreign_evaluation;
        grant select on all tables in schema registry_read to gene_registry_reader",
    )
    .await;
    for words in [
        ["1 rows of registry_read.gene have no id", "Give each gene an id"],
        ["2 rows of registry_read.gene", "-000000000001) have an unknown fidelity"],
        ["1 rows of registry_read.gene", "-000000000003) have an unknown required_fidelity"],
        ["2 rows of registry_read.gene", "-000000000004) have a domain that no request can name"],
        ["2 rows of registry_read.gene", "-000000000006) share their id"],
        ["3 rows of registry_read.arena_evaluation", "are ignored"],
        ["1 rows of registry_read.api_key (such as short)", "32 bytes"],
        ["2 rows of registry_read.api_key (such as one)", "share their key_hash"],
    ] {
        findings.assert_warning("rows", &words);
    }
    assert_eq!(findings.about("rows").count(), 8, "{findings:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn values_that_cannot_be_read_are_named_with_view_and_column() {
    let findings = after(
        "create table registry.raw (gene_id uuid, ms float8, points text);
        insert into registry.raw values (gen_random_uuid(), 1.7e15 * 1000, '1'), (null, 1, 'many');
        create table registry.doc (id uuid, io text);
        insert into registry.doc select id, '{' from registry.gene limit 1;
        create or replace view registry_read.arena_evaluation as
            select gene_id, points::float8 as fitness_value, to_timestamp(ms) as evaluated_at,
                1::bigint as total_calls
            from registry.raw;
        create or replace view registry_read.gene as
            select g.id, g.name, g.domain, g.fidelity, g.description, ''::text as owner,
                g.fitness_score, g.reputation_score, g.downloads, g.arena_rank,
                (select io::jsonb from registry.doc d where d.id = g.id) as phenotype,
                g.install_command, g.min_playground_version, g.required_fidelity
            from registry.gene g where g.published;
        alter table registry.api_key drop constraint api_key_key_hash_check;
        insert into registry.api_key (key_hash, prefix, owner, name)
            select 'short', 'gr_x', handle, 'n' from registry.owner limit 1",
    )
    .await;
    for words in [
        ["registry_read.arena_evaluation.evaluated_at", "timestamp out of range", "CASE WHEN"],
        ["registry_read.arena_evaluation.fitness_value", "\"many\"", "END AS fitness_value"],
        ["registry_read.gene.phenotype", "invalid input syntax for type json", "END AS phenotype"],
    ] {
        findings.assert_serious("rows", &words);
    }
    findings.assert_warning("rows", &["registry_read.api_key (such as gr_x)", "32 bytes"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn values_of_keys_are_not_printed() {
    let findings = after(
        "insert into registry.api_key (key_hash, prefix, owner, name)
            select sha256('a'), 'gr_x', handle, 'hush-hush' from registry.owner limit 1;
        create or replace view registry_read.api_key as
            select key_hash, prefix, owner, name, scopes, rate_limit_per_minute,
                created_at, name::timestamptz as expires_at, revoked_at
            from registry.api_key",
    )
    .await;
    findings.assert_serious("rows", &["registry_read.api_key.expires_at", "SQLSTATE 22007"]);
    assert!(!format!("{findings:?}").contains("hush"), "{findings:#?}");

    let findings = after(
        "insert into registry.api_key (key_hash, prefix, owner, name)
            select sha256('a'), 'gr_x', handle, 'hush-hush' from registry.owner limit 1;
        create or replace view registry_read.api_key as
            select key_hash, name::date::text as prefix, owner, name, scopes,
                rate_limit_per_minute, created_at, expires_at, revoked_at
            from registry.api_key",
    )
    .await;
    for check in ["rows", "keys"] {
        findings.assert_serious(check, &["registry_read.api_key", "SQLSTATE 22007"]);
    }
    assert!(!format!("{findings:?}").contains("hush"), "{findings:#?}");
}
