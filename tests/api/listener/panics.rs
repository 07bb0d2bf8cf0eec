//! A panic in a handler.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures_util::future::join_all;

use super::{Held, SOON, over};
use crate::support::traffic::assert_shed;
use crate::support::wait::eventually;

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_is_a_500_of_the_one_shape_for_all_who_wait_and_over_with_the_next_request() {
    let (held, key) = Held::new();
    let replica = over(Arc::clone(&held), |_| {}).await;
    let path = "/arena/insights?domain=search";

    held.crashes.store(true, Ordering::SeqCst);
    for answer in join_all((0..5).map(|_| replica.get(path, Some(&key)))).await {
        answer.assert_refused(500, "INTERNAL");
        assert_eq!(answer.header("cache-control"), "no-store");
        assert!(!answer.header("ratelimit").is_empty(), "{answer:?}");
        assert!(!answer.text.contains("a crash"), "{answer:?}");
    }
    held.crashes.store(false, Ordering::SeqCst);
    assert_eq!(replica.get(path, Some(&key)).await.status, 200);
    assert_eq!(replica.get("/genes", Some(&key)).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operation_that_takes_too_long_is_a_503_and_the_next_one_is_served() {
    let (held, key) = Held::new();
    let replica = over(Arc::clone(&held), |config| config.server.request_timeout_ms = 300).await;
    let path = "/arena/insights?domain=search";

    held.close();
    assert_shed(&replica.get(path, Some(&key)).await);
    assert_eq!(replica.get("/genes", Some(&key)).await.status, 200);
    held.open();

    eventually(SOON, "what was held has landed", || async {
        replica.get(path, Some(&key)).await.status == 200
    })
    .await;
}
