//! Rotating keys, through a control listener and directly on the database.

use gene_registry::keys::ApiKey;
use jiff::Timestamp;
use serde_json::Value;

use super::AccountSetup;
use crate::commands::{TIMEOUT, run_on};
use crate::support::wait::eventually;

fn ends(key: &Value) -> i64 {
    let at: Timestamp = key["expires_at"].as_str().unwrap().parse().unwrap();
    at.duration_since(Timestamp::now()).as_secs()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rotated_key_works_until_the_overlap_ends() {
    let setup = AccountSetup::start().await;
    let create = ["api-key", "create", "--name", "ci", "--rate-limit", "77", "--expires", "90d"];
    let old = setup.ana.run(&create).await.ok().stdout.trim().to_owned();
    let rotate = ["api-key", "rotate", "--prefix", &old[3..7], "--overlap", "2h"];
    let rotated = setup.ana.run(&rotate).await.ok();
    let new = rotated.stdout.strip_suffix('\n').unwrap();
    assert!(new.parse::<ApiKey>().is_ok(), "alone on standard output: {rotated:?}");
    assert!(!rotated.stderr.contains(new) && rotated.stderr.contains(&old[..11]), "{rotated:?}");
    for key in [old.as_str(), new] {
        assert_eq!(setup.status_of(key).await, 200);
    }
    let keys = setup.keys().await;
    assert_eq!(keys[0]["prefix"], new[..11], "newest first");
    for field in ["owner", "name", "scopes", "rate_limit_per_minute"] {
        assert_eq!(keys[0][field], keys[1][field], "{field}");
    }
    assert!((7_100..=7_201).contains(&ends(&keys[1])), "{}", keys[1]);
    assert!((89 * 86_400..=90 * 86_400 + 1).contains(&ends(&keys[0])), "{}", keys[0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_an_overlap_the_old_key_ends_at_once() {
    let setup = AccountSetup::start().await;
    let old = setup.create("ci").await;
    assert_eq!(setup.status_of(&old).await, 200);
    let rotate = ["api-key", "rotate", "--prefix", &old[..11], "--overlap", "0s", "--json"];
    let shown: Value = serde_json::from_str(&setup.ana.run(&rotate).await.ok().stdout).unwrap();
    assert_eq!(shown["replaced"]["prefix"], old[..11]);
    assert_eq!(setup.status_of(shown["key"].as_str().unwrap()).await, 200);
    eventually(TIMEOUT, "the old key is refused", || async { setup.status_of(&old).await == 401 })
        .await;
    let revoke = ["api-key", "revoke", "--prefix", shown["prefix"].as_str().unwrap()];
    setup.ana.run(&revoke).await.ok();
    let ended = setup.ana.run(&rotate).await.failed(1, &[]);
    assert!(ended.stderr.contains("has expired or was revoked"), "{ended:?}");
    for wrong in ["", "-1h", "soon", "1000y", "366d", "400d", "31536001s"] {
        let overlap = format!("--overlap={wrong}");
        let rotate = ["api-key", "rotate", "--prefix", "gr_aaaa", &overlap];
        let ended = setup.ana.run(&rotate).await.failed(2, &[]);
        assert!(ended.stderr.contains("--overlap"), "{wrong}: {ended:?}");
    }
    // Both accept the arguments; only the key is unknown.
    let rotate = ["api-key", "rotate", "--prefix", "gr_aaaa", "--overlap", "365d"];
    let ended = setup.ana.run(&rotate).await.failed(2, &[]);
    assert!(ended.stderr.contains("no key with this prefix"), "{ended:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_message_explains_recovery_from_a_lost_rotation_response() {
    let setup = AccountSetup::start().await;
    let url = setup.database.url();
    for direct in [false, true] {
        let old = setup.create("ci").await;
        let rotate = async |prefix: &str, more: &[&str]| {
            let rotate = [&["api-key", "rotate", "--prefix", prefix], more].concat();
            if direct {
                run_on(&url, [&rotate[..], &["--direct", "--owner", "ana"]].concat()).await
            } else {
                setup.ana.run(&rotate).await
            }
        };
        let lost = rotate(&old[..11], &[]).await.ok().stdout;
        let (lost, lost_prefix) = (lost.trim(), &lost[..11]);
        let retry = rotate(&old[..11], &[]).await.failed(1, &[lost]);
        let (_, advice) = retry.stderr.split_once("replace it: ").expect("advice");
        let asked = format!("gene-registry api-key rotate --prefix {lost_prefix} --overlap 0s\n");
        assert_eq!(advice, asked, "{retry:?}");
        let new = rotate(lost_prefix, &["--overlap", "0s"]).await.ok().stdout;
        assert_eq!(setup.status_of(new.trim()).await, 200);
        eventually(TIMEOUT, "the lost key is refused", || async {
            setup.status_of(lost).await == 401
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn operators_rotate_directly_on_the_database() {
    let setup = AccountSetup::start().await;
    let old = setup.create("ci").await;
    let url = setup.database.url();
    let mut last = old.clone();
    let whose = [&["--direct", "--owner", "ana"][..], &["--direct", "--all"]];
    for (whose, cut) in whose.into_iter().zip([0, 3]) {
        let rotate = ["api-key", "rotate", "--prefix", &last[cut..11]];
        let rotated = run_on(&url, [&rotate[..], whose].concat()).await.ok();
        assert_eq!(setup.status_of(rotated.stdout.trim()).await, 200, "{rotated:?}");
        last = rotated.stdout.trim().to_owned();
    }
    let list = ["api-key", "list", "--direct", "--all", "--json"];
    let all: Vec<Value> = serde_json::from_str(&run_on(&url, list).await.ok().stdout).unwrap();
    assert_eq!(all.len(), 3);
    for wrong in [
        &["--direct"][..],
        &["--direct", "--owner", "ben", "--all"],
        &["--direct", "--owner", "ana", "--server", setup.server()],
        &["--owner", "ana"],
    ] {
        let rotate = ["api-key", "rotate", "--prefix", &old[..11]];
        run_on(&url, [&rotate[..], wrong].concat()).await.failed(2, &[]);
    }
}
