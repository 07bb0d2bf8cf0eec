//! The OpenID provider of the tests follows its instructions: the other tests rely on it.

use std::time::Duration;

use serde_json::json;

use crate::support::issuer::{AUDIENCE, Issuer};
use crate::support::wait::eventually;

const TIMEOUT: Duration = Duration::from_secs(20);

#[tokio::test(flavor = "multi_thread")]
async fn the_provider_delays_slows_down_denies_and_expires_logins() {
    let issuer = Issuer::start().await;
    let code = |device: &serde_json::Value| device["user_code"].as_str().unwrap().to_owned();
    let device = issuer.begin(AUDIENCE).await;
    assert_eq!((&device["interval"], &device["expires_in"]), (&json!(1), &json!(300)));
    let error = async |device| issuer.poll(device, AUDIENCE).await["error"].clone();
    assert_eq!(error(&device).await, "authorization_pending");
    issuer.set(json!({ "slow_downs": 2 })).await;
    for expected in ["slow_down", "slow_down", "authorization_pending"] {
        assert_eq!(error(&device).await, expected);
    }
    issuer.deny(&code(&device)).await;
    assert_eq!(error(&device).await, "access_denied");
    assert_eq!(issuer.polls().await.len(), 5);

    issuer.set(json!({ "device_code_s": 1 })).await;
    let device = issuer.begin(AUDIENCE).await;
    eventually(TIMEOUT, "the code ends", || async { error(&device).await == "expired_token" })
        .await;
}
