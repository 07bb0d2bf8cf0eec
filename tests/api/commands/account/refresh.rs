//! Expired logins: tokens are refreshed, by one process at a time.

use futures_util::future::join_all;
use serde_json::{Value, json};

use super::AccountSetup;
use crate::support::issuer::{AUDIENCE, CLIENT, Issuer};

/// A user who has logged in through the provider.
async fn setup() -> (AccountSetup, Issuer) {
    let issuer = Issuer::start().await;
    let setup = AccountSetup::with(|config| issuer.configure(config)).await;
    let tokens = issuer.log_in("ana").await;
    let login = json!({
        "user": "ana",
        "token": tokens.access,
        "expires_at": "2020-01-01T00:00:00Z",
        "oidc": { "issuer": issuer.url, "client_id": CLIENT, "resource": AUDIENCE,
                  "refresh_token": tokens.refresh },
    });
    let server = setup.server();
    let kept = json!({ "version": 1, "default": server, "servers": { server: login } });
    setup.ana.set_credentials(&kept.to_string());
    (setup, issuer)
}

fn kept(setup: &AccountSetup) -> Value {
    setup.ana.credentials()["servers"][setup.server()].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_expired_token_and_its_refresh_token_are_renewed() {
    let (setup, _issuer) = setup().await;
    let before = kept(&setup);
    for _ in 0..3 {
        setup.ana.run(&["whoami"]).await.ok();
    }
    let after = kept(&setup);
    assert_ne!(after["token"], before["token"]);
    assert_ne!(
        after["oidc"]["refresh_token"], before["oidc"]["refresh_token"],
        "the token was rotated"
    );
    assert!(after["expires_at"].as_str().unwrap() > "2026", "{}", after["expires_at"]);
    setup.ana.run(&["whoami"]).await.ok();
    assert_eq!(kept(&setup), after, "not renewed before it ends");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_renewed_although_the_issuer_is_busy() {
    let (setup, issuer) = setup().await;
    issuer.set(json!({ "busy": 2, "retry_after": "1" })).await;
    let listed = setup.ana.run(&["api-key", "list"]).await.ok();
    assert!(listed.stderr.contains("waiting for 1 s"), "{listed:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rejected_token_is_renewed_once() {
    let (setup, _issuer) = setup().await;
    let mut all = setup.ana.credentials();
    // A wrong clock makes the expired token seem valid.
    let login = &mut all["servers"][setup.server()];
    login["expires_at"] = json!("2099-01-01T00:00:00Z");
    login["token"] = json!("e30.e30.e30");
    setup.ana.set_credentials(&all.to_string());
    setup.ana.run(&["api-key", "list"]).await.ok();
    assert_ne!(kept(&setup)["token"], "e30.e30.e30");
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_renewals_lose_no_login() {
    let (setup, _issuer) = setup().await;
    // The provider ends a login whose refresh token is used twice.
    for ended in join_all((0..6).map(|_| setup.ana.run(&["whoami"]))).await {
        ended.ok();
    }
    let mut all = setup.ana.credentials();
    all["servers"][setup.server()]["expires_at"] = json!("2020-01-01T00:00:00Z");
    setup.ana.set_credentials(&all.to_string());
    setup.ana.run(&["whoami"]).await.ok();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_login_ended_at_the_issuer_prints_the_remedy() {
    let (setup, _issuer) = setup().await;
    let old = setup.ana.credentials().to_string();
    setup.ana.run(&["whoami"]).await.ok();
    // A used refresh token is used again: the provider treats that as theft.
    setup.ana.set_credentials(&old);
    let secrets = [kept(&setup)["token"].as_str().unwrap().to_owned()];
    let ended = setup.ana.run(&["whoami"]).await.failed(1, &[&secrets[0]]);
    let what = format!("gene-registry login --server {}", setup.server());
    assert!(ended.stderr.contains(&what), "{ended:?}");
    assert_eq!(setup.ana.credentials().to_string(), old, "nothing was changed");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unavailable_issuer_deletes_no_credentials() {
    let (setup, issuer) = setup().await;
    let before = kept(&setup);
    issuer.set(json!({ "refuse": true })).await;
    setup.ana.run(&["whoami"]).await.failed(1, &[]);
    assert_eq!(kept(&setup), before);
    issuer.set(json!({ "refuse": false })).await;
    setup.ana.run(&["whoami"]).await.ok();
}

#[tokio::test(flavor = "multi_thread")]
async fn logout_revokes_the_refresh_token_at_the_issuer() {
    let (setup, issuer) = setup().await;
    let old = setup.ana.credentials().to_string();
    let ended = setup.ana.run(&["logout"]).await.ok();
    assert!(ended.stderr.contains("revoked"), "{ended:?}");
    // As if somebody else had used a copy.
    setup.ana.set_credentials(&old);
    setup.ana.run(&["whoami"]).await.failed(1, &[]);

    issuer.stop();
    let ended = setup.ana.run(&["logout"]).await.ok();
    assert!(ended.stderr.contains("could not revoke"), "best effort: {ended:?}");
    assert_eq!(setup.ana.credentials()["servers"], json!({}));
}
