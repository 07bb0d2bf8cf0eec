//! The operations support only GET.

use super::{OPERATIONS, Stand, assert_refusal};

#[tokio::test(flavor = "multi_thread")]
async fn every_other_method_is_refused_with_405_and_allow() {
    let stand = Stand::start().await;
    let key = [("X-API-Key", stand.key.as_str())];
    for replica in &stand.replicas {
        for operation in OPERATIONS {
            let target = format!("/v1{operation}");
            for method in
                ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "BREW", "get", "M-SEARCH"]
            {
                for headers in [&key[..], &[]] {
                    let answer = replica.raw(method, &target, headers).await;
                    assert_eq!(answer.status, 405, "{method} {target}: {answer:?}");
                    assert_refusal(&answer, 405, "METHOD_NOT_ALLOWED");
                    assert_eq!(answer.header("allow"), "GET", "{method}");
                }
            }
            let answer = replica.raw("HEAD", &target, &key).await;
            assert_eq!((answer.status.as_u16(), answer.text.as_str()), (405, ""), "{answer:?}");
            assert_eq!(answer.header("allow"), "GET");
            assert_eq!(answer.header("cache-control"), "no-store");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_with_a_body_is_refused_like_any_other() {
    let stand = Stand::start().await;
    let headers = [("X-API-Key", stand.key.as_str()), ("Content-Length", "2")];
    for replica in &stand.replicas {
        let mut request = crate::support::raw::head("POST", "/v1/genes", &headers);
        request.extend_from_slice(b"{}");
        let address = crate::support::raw::address(&replica.base);
        let answer = crate::support::raw::exchange(&address, &request).await;
        assert_refusal(&answer, 405, "METHOD_NOT_ALLOWED");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_method_that_is_refused_does_not_count_against_the_limit() {
    let stand = Stand::start().await;
    for replica in &stand.replicas {
        let key = stand.database.new_key(1).await;
        for method in ["HEAD", "OPTIONS", "POST"] {
            replica.raw(method, "/v1/genes", &[("X-API-Key", &key)]).await;
        }
        let answer = replica.raw_get("/genes", &key).await;
        assert_eq!((answer.status.as_u16(), answer.header("x-ratelimit-remaining")), (200, "0"));
    }
}
