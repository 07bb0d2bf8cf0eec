//! Changing keys through a control listener, and directly in the database.

use serde_json::Value;

use super::AccountSetup;
use crate::commands::{TIMEOUT, run_on};
use crate::support::wait::eventually;

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_key_stays_the_same_key() {
    let setup = AccountSetup::start().await;
    let key = setup.create("ci").await;
    assert_eq!(setup.status_of(&key).await, 200);
    let update = ["api-key", "update", "--prefix", &key[..11]];
    let run = async |change: &[&str]| setup.ana.run(&[&update[..], change].concat()).await;
    let changed = run(&["--name", "new", "--rate-limit", "77"]).await.ok();
    let expected = format!("{} (new) now has 77 requests a minute. Expires: never.\n", &key[..11]);
    assert_eq!(changed.stdout, expected);
    let changed = run(&["--expires", "2090-01-31", "--json"]).await.ok();
    let changed: Value = serde_json::from_str(&changed.stdout).unwrap();
    assert_eq!(setup.keys().await, std::slice::from_ref(&changed));
    assert_eq!(changed["expires_at"], "2090-01-31T00:00:00Z");
    assert_eq!((&changed["name"], &changed["rate_limit_per_minute"]), (&"new".into(), &77.into()));
    eventually(TIMEOUT, "the new limit", || async {
        let response = setup.replica.get("/genes?limit=1", Some(&key)).await;
        response.header("x-ratelimit-limit") == "77"
    })
    .await;
    assert!(run(&["--expires", "never"]).await.ok().stdout.contains("Expires: never"));
    assert!(setup.keys().await[0]["expires_at"].is_null());
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_that_cannot_be_made_are_explained() {
    let setup = AccountSetup::with(|config| config.control.max_rate_limit = 600).await;
    setup.log_in(&setup.ana, &setup.token).await;
    let key = setup.create("ci").await;
    let before = setup.keys().await;
    let update =
        async |args: &[&str]| setup.ana.run(&[&["api-key", "update"], args].concat()).await;
    let prefix = ["--prefix", &key[..11]];
    for (args, code, word) in [
        (&[][..], 2, "--name"),
        (&["--rate-limit", "0"], 2, "--rate-limit"),
        (&["--rate-limit", "2147483648"], 2, "--rate-limit"),
        (&["--expires", "soon"], 2, "--expires"),
        (&["--name", "a\nb"], 2, "--name"),
        (&["--rate-limit", "601"], 1, "control.max_rate_limit"),
        (&["--name", "x", "--all"], 1, "operator"),
    ] {
        let refused = update(&[&prefix[..], args].concat()).await.failed(code, &[]);
        assert!(refused.stderr.contains(word), "{word}: {refused:?}");
    }
    update(&["--prefix", "zzzz", "--name", "x"]).await.failed(2, &[]);
    update(&["--prefix", &key, "--name", "x"]).await.failed(2, &[&key[12..]]);
    assert_eq!(setup.keys().await, before);
    setup.ana.run(&["api-key", "revoke", "--prefix", &key[..11]]).await.ok();
    let late = update(&[&prefix[..], &["--expires", "90d"]].concat()).await.failed(1, &[]);
    assert!(late.stderr.contains("cannot be changed"), "{late:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn operators_change_keys_in_the_database_without_the_limits_of_users() {
    let setup = AccountSetup::start().await;
    let key = setup.create("ci").await;
    let update =
        ["api-key", "update", "--direct", "--prefix", &key[..11], "--rate-limit", "100000"];
    let url = setup.database.url();
    run_on(&url, [&update[..], &["--owner", "somebody"]].concat()).await.failed(2, &[]);
    for whose in [&["--owner", "ana"][..], &["--all"]] {
        let changed = run_on(&url, [&update[..], whose].concat()).await.ok();
        assert!(changed.stdout.contains("(ci) now has 100000 requests a minute"), "{changed:?}");
        let audited = changed.stderr.lines().filter(|line| {
            ["gene_registry::audit", "\"update\"", &key[..11]]
                .iter()
                .all(|word| line.contains(word))
        });
        assert_eq!(audited.count(), 1, "{changed:?}");
    }
    assert_eq!(setup.keys().await[0]["rate_limit_per_minute"], 100_000);
}
