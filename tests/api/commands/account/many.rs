//! A thousand keys, and what is written of secrets where others can read it.

use std::collections::HashSet;

use super::Stand;
use crate::commands::SOON;
use crate::commands::person::Person;
use crate::support::proxy::{FaultProxy, Mode};
use crate::support::raw::address;
use crate::support::wait::until;

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_keys_are_listed_and_one_of_them_is_revoked() {
    let stand = Stand::start().await;
    stand.create("the first").await;
    let sql = "insert into registry.api_key
            (key_hash, prefix, owner, name, scopes, rate_limit_per_minute, created_at)
        select sha256(n::text::bytea), 'gr_' || lpad(n::text, 8, '0'), 'ana', 'key ' || n,
            '{read}', 30, now() - n * interval '1 s' from generate_series(1, 1000) n";
    stand.execute(sql).await;
    let keys = stand.keys().await;
    let prefixes: HashSet<_> = keys.iter().map(|key| key["prefix"].as_str().unwrap()).collect();
    assert_eq!((keys.len(), prefixes.len()), (1001, 1001));
    assert!(keys.is_sorted_by_key(|key| {
        std::cmp::Reverse(key["created_at"].as_str().unwrap().to_owned())
    }));
    let table = stand.ana.run(&["api-key", "list"]).await.ok().stdout;
    assert_eq!(table.lines().count(), 1002);

    let revoke = |prefix: &'static str| {
        let ana = stand.ana.clone();
        async move { ana.run(&["api-key", "revoke", "--prefix", prefix]).await }
    };
    let ended = revoke("0000").await.failed(2, &[]);
    assert!(ended.stderr.lines().count() < 30, "not all of them: {ended:?}");
    revoke("00000500").await.ok();
    let keys = stand.keys().await;
    let revoked = keys.iter().filter(|key| key["status"] == "revoked");
    let revoked: Vec<_> = revoked.map(|key| key["prefix"].as_str().unwrap()).collect();
    assert_eq!(revoked, ["gr_00000500"]);
}

/// What anybody on the machine can see of a process.
fn visible(pid: u32) -> String {
    let read = |name: &str| {
        let bytes = std::fs::read(format!("/proc/{pid}/{name}")).unwrap_or_default();
        String::from_utf8_lossy(&bytes).replace('\0', " ")
    };
    read("cmdline") + &read("environ")
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_are_in_no_argument_and_no_environment() {
    let stand = Stand::start().await;
    let proxy = FaultProxy::start(address(stand.server())).await;
    let through = format!("http://{}", proxy.addr());
    let person = Person::new();
    let login = ["login", "--server", through.as_str(), "--token-stdin"];
    person.run_with_input(&login, &stand.token).await.ok();
    // It hangs in the middle of a request, with everything that it has.
    proxy.set(Mode::Stall).await;
    let process = person.command(&["api-key", "create", "--name", "ci"]).start();
    let seen = until(SOON, "the program runs", || async {
        Some(visible(process.pid())).filter(|text| text.contains("api-key create"))
    })
    .await;
    assert!(!seen.contains(&stand.token), "{seen}");
}
