//! Indexes. The statements that doctor prints are executed, and then it prints none.

use super::{Findings, after, as_reader, healthy};
use crate::documents::existing_registry::mapped;
use crate::support::database::Database;
use crate::support::postgres::PostgresServer;

/// Executes the statements that the findings name.
async fn apply_remedies(database: &Database<'_>, findings: &Findings) -> usize {
    let owner = database.connect().await;
    let mut remedies: Vec<_> = findings.about("indexes").map(|it| it.remedy.as_str()).collect();
    remedies.sort_unstable();
    remedies.dedup();
    for remedy in &remedies {
        assert!(remedy.starts_with("CREATE INDEX CONCURRENTLY ON "), "{remedy}");
        owner.batch_execute(remedy).await.unwrap_or_else(|error| panic!("{remedy}: {error}"));
    }
    remedies.len()
}

/// A statement that drops the indexes of a schema that no constraint needs.
const DROP_INDEXES: &str = "do $$ declare index regclass; begin
        for index in select indexrelid::regclass from pg_index i join pg_class c on c.oid = indrelid
            where c.relnamespace::regnamespace::text in ('registry', 'catalog')
                and not exists (select from pg_constraint where conindid = indexrelid)
        loop execute format('drop index %s', index); end loop;
    end $$";

#[tokio::test(flavor = "multi_thread")]
async fn the_printed_statements_create_all_indexes_of_the_default_schema() {
    let database = healthy(PostgresServer::shared().await).await;
    database.connect().await.batch_execute(DROP_INDEXES).await.unwrap();

    let findings = Findings::of(&as_reader(&database)).await;

    findings.assert_only(&["indexes"]);
    for (purpose, beginning) in [
        ("the search, sorted by fitness_score,", "registry.gene ((COALESCE(fitness_score, "),
        (
            "the search by domain, sorted by downloads,",
            "registry.gene (domain COLLATE \"C\", (LEAST(",
        ),
        ("the count of broken rows", "registry.gene (domain COLLATE \"C\") WHERE "),
        (
            "the arena history of a gene",
            "registry.arena_evaluation (gene_id, evaluated_at DESC, fitness_value DESC) INCLUDE \
             (total_calls) WHERE ",
        ),
        ("each poll of the change log", "registry.change (changed_in);"),
        ("each start of a replica", "registry.change (changed_at);"),
    ] {
        let remedy = format!("CREATE INDEX CONCURRENTLY ON {beginning}");
        findings.assert_warning("indexes", &[purpose, &remedy]);
    }
    // Not the lookups by primary key.
    assert_eq!(apply_remedies(&database, &findings).await, 10);
    Findings::of(&as_reader(&database)).await.assert_only(&[]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_printed_statements_for_the_guides_registry_are_as_many_as_in_the_guide() {
    let (database, owner) = mapped().await;
    owner.batch_execute(DROP_INDEXES).await.unwrap();
    let mut config = as_reader(&database);
    config.keys.accept_foreign = true;

    let findings = Findings::of(&config).await;

    let of_genes = findings.about("indexes").filter(|it| it.remedy.contains(" ON catalog.item ("));
    assert_eq!(of_genes.count(), 7, "{findings:#?}");
    // One for evaluations, one for keys, and two for the change log.
    assert_eq!(apply_remedies(&database, &findings).await, 11);
    let many =
        "INSERT INTO catalog.item SELECT gen_random_uuid(), 't', 'area.' || n % 2, 1 + n % 3,
            1, n % 997, n % 991, n % 983, 1 FROM generate_series(1, 50000) n;
        INSERT INTO catalog.match SELECT item_id, 1, now(), 1 FROM catalog.item";
    owner.batch_execute(many).await.unwrap();
    for table in ["item", "match", "token"] {
        owner.batch_execute(&format!("VACUUM ANALYZE catalog.{table}")).await.unwrap();
    }
    Findings::of(&config).await.assert_only(&["role", "rows"]);
}

/// A registry of 40,000 genes, in whose view domains and scores come from other tables.
const JOINED: &str = "create schema far;
    create table far.item as select gen_random_uuid() as id, 'g' || n as name, n
        from generate_series(1, 40000) n;
    create table far.area as select id as item, 'area.' || n % 50 as domain from far.item;
    create table far.score as select id as item, n::float8 as fitness, n as downloads from far.item;
    alter table far.item add primary key (id);
    alter table far.area add primary key (item); create index on far.area (domain);
    alter table far.score add primary key (item); create index on far.score (fitness);
    analyze far.item; analyze far.area; analyze far.score;
    drop view registry_read.gene;
    create view registry_read.gene as select i.id, i.name, a.domain, 'Native' as fidelity,
        ''::text as description, ''::text as owner, s.fitness as fitness_score,
        0::float8 as reputation_score, s.downloads::bigint as downloads, 0::bigint as arena_rank,
        null::jsonb as phenotype, ''::text as install_command, ''::text as min_playground_version,
        null::text as required_fidelity
        from far.item i join far.area a on a.item = i.id join far.score s on s.item = i.id;
    grant select on registry_read.gene to gene_registry_reader";

#[tokio::test(flavor = "multi_thread")]
async fn searches_over_joins_are_warnings() {
    let findings = after(JOINED).await;
    let remedy = "fidelity and the three numbers by which genes are sorted from one table";
    findings.assert_warning("indexes", &["sorts all rows of the view", remedy]);
    for table in ["far.item", "far.area", "far.score"] {
        findings.assert_warning("indexes", &[&format!("reads the whole table {table}"), remedy]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn statements_that_take_longer_than_their_timeout_are_serious() {
    let database = healthy(PostgresServer::shared().await).await;
    database.connect().await.batch_execute(JOINED).await.unwrap();
    let mut config = as_reader(&database);
    config.upstream.query_ms = 1;

    let findings = Findings::of(&config).await;

    let words = ["the search", "did not end within upstream.query_ms (1 ms), but took at least "];
    findings.assert_serious("indexes", &words);
}

/// A registry with other names and types. Its views cast where that does not change values.
const EXISTING: &str = r#"create schema shop;
    create table shop."Item" (key uuid, title varchar(80), area varchar(80), kind varchar(10),
        score real, author int, hidden boolean not null default false);
    create table shop.author (number int, handle text);
    create table shop.run (item uuid, score float8, at timestamptz, calls int);
    create table shop.token (digest bytea, prefix text);
    drop schema registry_read cascade;
    create schema registry_read;
    create view registry_read.gene as select i.key as id, i.title as name, i.area as domain,
        i.kind as fidelity, null::text as description, a.handle as owner,
        i.score::float8 as fitness_score, 0::float8 as reputation_score, 0::bigint as downloads,
        0::bigint as arena_rank, null::jsonb as phenotype, null::text as install_command,
        null::text as min_playground_version, null::text as required_fidelity
        from shop."Item" i join shop.author a on a.number = i.author where not i.hidden;
    create view registry_read.arena_evaluation as select item as gene_id, score as fitness_value,
        at as evaluated_at, calls::bigint as total_calls from shop.run;
    create view registry_read.api_key as select digest as key_hash, prefix, null::text as owner,
        null::text as name, '{read}'::text[] as scopes, 30 as rate_limit_per_minute,
        now() as created_at, null::timestamptz as expires_at, null::timestamptz as revoked_at
        from shop.token;
    grant usage on schema registry_read to gene_registry_reader;
    grant select on all tables in schema registry_read to gene_registry_reader"#;

#[tokio::test(flavor = "multi_thread")]
async fn the_printed_statements_serve_an_existing_registry() {
    let database = healthy(PostgresServer::shared().await).await;
    database.connect().await.batch_execute(EXISTING).await.unwrap();

    let findings = Findings::of(&as_reader(&database)).await;

    findings.assert_only(&["indexes", "change log"]);
    for (purpose, beginning) in [
        ("the phenotype of a gene", "shop.\"Item\" (key) WHERE (NOT hidden);"),
        ("the lookup of an API key", "shop.token (digest);"),
        ("the search by domain, sorted by fitness_score,", "shop.\"Item\" ("),
    ] {
        let remedy = format!("CREATE INDEX CONCURRENTLY ON {beginning}");
        findings.assert_warning("indexes", &[purpose, &remedy]);
    }
    let words = ["the whole table shop.author", "by which the view reads it"];
    findings.assert_warning("indexes", &words);
    let index = "create index on shop.author (number)";
    database.connect().await.batch_execute(index).await.unwrap();
    let findings = Findings::of(&as_reader(&database)).await;
    apply_remedies(&database, &findings).await;
    Findings::of(&as_reader(&database)).await.assert_only(&["change log"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn statements_that_fail_are_serious() {
    let database = healthy(PostgresServer::shared().await).await;
    // The owner of the view may not read its table.
    let statements = "create role doctor_view_owner;
        grant usage on schema registry to doctor_view_owner;
        alter view registry_read.api_key owner to doctor_view_owner";
    let owner = database.connect().await;
    owner.batch_execute(statements).await.unwrap();

    let findings = Findings::of(&as_reader(&database)).await;

    let clean = "drop owned by doctor_view_owner; drop role doctor_view_owner";
    owner.batch_execute(clean).await.unwrap();
    findings.assert_serious("indexes", &["the statement for API keys fails", "permission denied"]);
}
