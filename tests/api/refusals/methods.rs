//! The operations support only GET.

use super::{OPERATIONS, RefusalSetup, assert_refusal};

#[tokio::test(flavor = "multi_thread")]
async fn every_other_method_is_refused_with_405_and_allow() {
    let setup = RefusalSetup::start().await;
    let key = [("X-API-Key", setup.key.as_str())];
    for replica in &setup.replicas {
        for operation in OPERATIONS {
            let target = format!("/v1{operation}");
            for method in
                ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "BREW", "get", "M-SEARCH"]
            {
                for headers in [&key[..], &[]] {
                    let response = replica.raw(method, &target, headers).await;
                    assert_eq!(response.status, 405, "{method} {target}: {response:?}");
                    assert_refusal(&response, 405, "METHOD_NOT_ALLOWED");
                    assert_eq!(response.header("allow"), "GET", "{method}");
                }
            }
            let response = replica.raw("HEAD", &target, &key).await;
            assert_eq!(
                (response.status.as_u16(), response.text.as_str()),
                (405, ""),
                "{response:?}"
            );
            assert_eq!(response.header("allow"), "GET");
            assert_eq!(response.header("cache-control"), "no-store");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_with_a_body_is_refused_like_any_other() {
    let setup = RefusalSetup::start().await;
    let headers = [("X-API-Key", setup.key.as_str()), ("Content-Length", "2")];
    for replica in &setup.replicas {
        let mut request = crate::support::raw::head("POST", "/v1/genes", &headers);
        request.extend_from_slice(b"{}");
        let address = crate::support::raw::address(&replica.base);
        let response = crate::support::raw::exchange(&address, &request).await;
        assert_refusal(&response, 405, "METHOD_NOT_ALLOWED");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_method_that_is_refused_does_not_count_against_the_limit() {
    let setup = RefusalSetup::start().await;
    for replica in &setup.replicas {
        let key = setup.database.new_key(1).await;
        for method in ["HEAD", "OPTIONS", "POST"] {
            replica.raw(method, "/v1/genes", &[("X-API-Key", &key)]).await;
        }
        let response = replica.raw_get("/genes", &key).await;
        assert_eq!(
            (response.status.as_u16(), response.header("x-ratelimit-remaining")),
            (200, "0")
        );
    }
}
