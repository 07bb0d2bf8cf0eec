//! The triggers that write the change log of this project.

use super::{Findings, after, as_reader};
use crate::documents::existing_registry::mapped;

const HOW: &str = "step 4 of docs/upstream.md#4-triggers-of-the-change-log";

#[tokio::test(flavor = "multi_thread")]
async fn each_missing_or_disabled_trigger_on_a_registry_with_own_views_is_found() {
    let (database, owner) = mapped().await;
    let mut config = as_reader(&database);
    config.keys.accept_foreign = true;
    Findings::of(&config).await.assert_only(&["role", "rows"]);

    let drop = "drop trigger gene_registry_update on catalog.token;
        insert into registry.change (scope) values ('key:00')";
    owner.batch_execute(drop).await.unwrap();
    let words =
        ["on catalog.token logs UPDATE of API keys", "registry.watch_keys('catalog.token'", HOW];
    Findings::of(&config).await.assert_serious("change log", &words);

    let drop_all = "drop trigger gene_registry_insert on catalog.token;
        drop trigger gene_registry_delete on catalog.token;
        drop trigger gene_registry_truncate on catalog.token; truncate registry.change";
    owner.batch_execute(drop_all).await.unwrap();
    let words =
        ["catalog.token logs INSERT, UPDATE, DELETE", "registry.watch_keys('catalog.token'"];
    Findings::of(&config).await.assert_serious("change log", &words);

    let watch = "select registry.watch_keys('catalog.token',
            'select decode(sha256_hex, ''hex''), disabled from changed');
        alter table catalog.token disable trigger gene_registry_delete;
        drop trigger gene_registry_insert on catalog.item;
        drop trigger gene_registry_update on catalog.item";
    owner.batch_execute(watch).await.unwrap();
    let findings = Findings::of(&config).await;
    let enable = "ALTER TABLE catalog.token ENABLE TRIGGER gene_registry_delete;";
    findings.assert_serious("change log", &["catalog.token logs DELETE of API keys", enable]);
    let words =
        ["catalog.item logs INSERT, UPDATE of genes", "registry.watch_genes('catalog.item'", HOW];
    findings.assert_warning("change log", &words);

    // Those of genes do not log keys.
    let genes = "select registry.watch_genes('catalog.token',
        'select null::uuid, null::text from changed where false')";
    owner.batch_execute(genes).await.unwrap();
    let words = ["catalog.token logs INSERT, UPDATE, DELETE of API keys"];
    Findings::of(&config).await.assert_serious("change log", &words);
}

#[tokio::test(flavor = "multi_thread")]
async fn other_tables_behind_the_view_need_triggers_too() {
    let (database, owner) = mapped().await;
    let mut config = as_reader(&database);
    config.keys.accept_foreign = true;
    let drop = "drop trigger gene_registry_update on catalog.item_version;
        alter table catalog.author disable trigger gene_registry_update";
    owner.batch_execute(drop).await.unwrap();
    let findings = Findings::of(&config).await;
    let words =
        ["on catalog.item_version logs UPDATE of genes", HOW, "only scores, ranks and counters"];
    findings.assert_warning("change log", &words);
    let enable = "ALTER TABLE catalog.author ENABLE TRIGGER gene_registry_update;";
    findings.assert_warning("change log", &["on catalog.author logs UPDATE of genes", enable]);
}

#[tokio::test(flavor = "multi_thread")]
async fn disabled_and_missing_triggers_of_the_default_schema_are_found() {
    let findings = after(
        "alter table registry.api_key disable trigger api_key_updated;
        drop trigger gene_deleted on registry.gene;
        insert into registry.change (scope) values ('key:00')",
    )
    .await;
    let enable = "ALTER TABLE registry.api_key ENABLE TRIGGER api_key_updated;";
    findings.assert_serious("change log", &["registry.api_key logs UPDATE of API keys", enable]);
    let words = ["registry.gene logs DELETE of genes", "V3__change_log.sql"];
    findings.assert_warning("change log", &words);
    findings.assert_only(&["change log"]);
}
