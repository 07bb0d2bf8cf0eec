//! A panic in a handler.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures_util::future::join_all;

use super::{ControlledUpstream, TIMEOUT, replica_over};
use crate::support::traffic::assert_shed;
use crate::support::wait::eventually;

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_is_a_500_for_all_waiting_requests_and_the_next_one_succeeds() {
    let (upstream, key) = ControlledUpstream::new();
    let replica = replica_over(Arc::clone(&upstream), |_| {}).await;
    let path = "/arena/insights?domain=search";

    upstream.panics.store(true, Ordering::SeqCst);
    for response in join_all((0..5).map(|_| replica.get(path, Some(&key)))).await {
        response.assert_refused(500, "INTERNAL");
        assert_eq!(response.header("cache-control"), "no-store");
        assert!(!response.header("ratelimit").is_empty(), "{response:?}");
        assert!(!response.text.contains("a panic"), "{response:?}");
    }
    upstream.panics.store(false, Ordering::SeqCst);
    assert_eq!(replica.get(path, Some(&key)).await.status, 200);
    assert_eq!(replica.get("/genes", Some(&key)).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operation_that_takes_too_long_is_a_503_and_the_next_one_is_served() {
    let (upstream, key) = ControlledUpstream::new();
    let replica =
        replica_over(Arc::clone(&upstream), |config| config.server.request_timeout_ms = 300).await;
    let path = "/arena/insights?domain=search";

    upstream.hold();
    assert_shed(&replica.get(path, Some(&key)).await);
    assert_eq!(replica.get("/genes", Some(&key)).await.status, 200);
    upstream.release();

    eventually(TIMEOUT, "the held read has finished", || async {
        replica.get(path, Some(&key)).await.status == 200
    })
    .await;
}
