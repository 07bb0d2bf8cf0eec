//! The form of the registry's API keys.

use super::{Findings, as_reader, healthy};
use crate::support::postgres::PostgresServer;

#[tokio::test(flavor = "multi_thread")]
async fn keys_that_are_all_foreign_need_a_setting() {
    let database = healthy(PostgresServer::shared().await).await;
    let foreign = "insert into registry.owner (handle) values ('partner') on conflict do nothing;
        insert into registry.api_key (key_hash, prefix, owner, name)
        values (sha256('partner-0123456789'), 'partner', 'partner', 'n')";
    let owner = database.connect().await;
    owner.batch_execute(foreign).await.unwrap();
    let mut config = as_reader(&database);

    let findings = Findings::of(&config).await;

    let words = ["such as partner", "keys.accept_foreign is false", "get 401", "= true"];
    findings.assert_warning("keys", &words);
    findings.assert_only(&["keys"]);
    config.keys.accept_foreign = true;
    Findings::of(&config).await.assert_only(&[]);
    config.keys.accept_foreign = false;
    database.new_key(1).await;
    Findings::of(&config).await.assert_only(&[]);
}
