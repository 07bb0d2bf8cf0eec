//! A thousand keys.

use std::collections::HashSet;

use super::AccountSetup;

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_keys_are_listed_and_one_of_them_is_revoked() {
    let setup = AccountSetup::start().await;
    setup.create("the first").await;
    let sql = "insert into registry.api_key
            (key_hash, prefix, owner, name, scopes, rate_limit_per_minute, created_at)
        select sha256(n::text::bytea), 'gr_' || lpad(n::text, 8, '0'), 'ana', 'key ' || n,
            '{read}', 30, now() - n * interval '1 s' from generate_series(1, 1000) n";
    setup.execute(sql).await;
    let keys = setup.keys().await;
    let prefixes: HashSet<_> = keys.iter().map(|key| key["prefix"].as_str().unwrap()).collect();
    assert_eq!((keys.len(), prefixes.len()), (1001, 1001));
    assert!(keys.is_sorted_by_key(|key| {
        std::cmp::Reverse(key["created_at"].as_str().unwrap().to_owned())
    }));
    let table = setup.ana.run(&["api-key", "list"]).await.ok().stdout;
    assert_eq!(table.lines().count(), 1002);

    let revoke = |prefix: &'static str| {
        let ana = setup.ana.clone();
        async move { ana.run(&["api-key", "revoke", "--prefix", prefix]).await }
    };
    let ended = revoke("0000").await.failed(2, &[]);
    assert!(ended.stderr.lines().count() < 30, "not all of them: {ended:?}");
    revoke("00000500").await.ok();
    let keys = setup.keys().await;
    let revoked = keys.iter().filter(|key| key["status"] == "revoked");
    let revoked: Vec<_> = revoked.map(|key| key["prefix"].as_str().unwrap()).collect();
    assert_eq!(revoked, ["gr_00000500"]);
}
