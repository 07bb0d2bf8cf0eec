//! The change log.

use super::{Findings, after, as_reader, healthy};
use crate::support::postgres::PostgresServer;

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_log_is_a_warning() {
    let findings = after("drop view registry_read.change").await;
    findings.assert_warning("change log", &["no change log", "docs/upstream.md"]);
    findings.assert_only(&["change log"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_whose_change_was_not_logged_is_serious() {
    let database = healthy(PostgresServer::shared().await).await;
    let owner = database.connect().await;
    let logged = "insert into registry.change (scope, changed_at)
        values ('domain:d', now() - interval '1 hour')";
    owner.batch_execute(logged).await.unwrap();
    let key = database.new_key(1).await;
    Findings::of(&as_reader(&database)).await.assert_only(&[]);

    // Its creation was logged, and its revocation is not.
    let revoke = "alter table registry.api_key disable trigger user;
        update registry.change set changed_at = changed_at - interval '30 minutes';
        update registry.api_key set created_at = created_at - interval '30 minutes',
            revoked_at = now() - interval '1 second';
        alter table registry.api_key enable trigger user";
    owner.batch_execute(revoke).await.unwrap();

    let findings = Findings::of(&as_reader(&database)).await;
    let words = ["does not record changes of API keys", &key[..11], "key:<hex of key_hash>"];
    findings.assert_serious("change log", &words);
    findings.assert_only(&["change log"]);

    // A row about all keys covers it.
    let all = "insert into registry.change (scope) values ('keys')";
    owner.batch_execute(all).await.unwrap();
    Findings::of(&as_reader(&database)).await.assert_only(&[]);
}

/// A log that the application writes, without triggers.
const FOREIGN: &str = "alter table registry.api_key disable trigger user;
    alter table registry.gene disable trigger user;
    alter table registry.owner disable trigger user;
    create table registry.events as select * from registry.change where false;
    alter table registry.events alter changed_in set default pg_current_xact_id(),
        alter changed_at set default now();
    create index on registry.events (changed_in); create index on registry.events (changed_at);
    create or replace view registry_read.change as select * from registry.events;
    insert into registry.events (scope) values ('genes');";

#[tokio::test(flavor = "multi_thread")]
async fn a_foreign_log_that_shows_no_sign_of_recording_keys_is_serious() {
    let findings = after(FOREIGN).await;
    findings.assert_serious("change log", &["nothing shows", "API keys"]);
    findings.assert_only(&["change log"]);

    let key = "insert into registry.events (scope) values ('key:00')";
    after(&format!("{FOREIGN}{key}")).await.assert_only(&[]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_foreign_log_without_genes_or_recent_rows_is_a_warning() {
    let empty = format!("{FOREIGN} truncate registry.events;");
    let findings = after(&empty).await;
    findings.assert_warning("change log", &["no row of the last 25 hours"]);
    let keys = "insert into registry.events (scope) values ('keys')";
    let findings = after(&format!("{empty}{keys}")).await;
    findings.assert_warning("change log", &["nothing shows", "genes"]);
    findings.assert_only(&["change log"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_that_are_old_from_the_future_or_of_another_cluster_are_warnings() {
    let findings = after(
        "insert into registry.change (scope, changed_at) values
            ('genes', now() - interval '50 hours'), ('genes', now() + interval '1 hour');
        insert into registry.change (scope, changed_in)
            values ('genes', (pg_current_xact_id()::text::bigint + 5000000)::text::xid8)",
    )
    .await;
    findings.assert_warning("change log", &["older than 49 hours", "gene-registry maintain"]);
    findings.assert_warning("change log", &["from the future"]);
    findings.assert_warning("change log", &["1 rows", "another cluster"]);
    findings.assert_only(&["change log"]);
}
