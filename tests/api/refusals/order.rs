//! The order of checks: route, method, key, limit, parameters, existence.

use super::{OPERATIONS, RefusalSetup, assert_refusal};

#[tokio::test(flavor = "multi_thread")]
async fn the_first_failed_check_decides() {
    let setup = RefusalSetup::start().await;
    let unknown_gene = "/genes/00000000-0000-0000-0000-000000000000/phenotype";
    for replica in &setup.replicas {
        let used_up = setup.database.new_key(1).await;
        let never = setup.database.new_key(0).await;
        let first = replica.raw_get("/genes?limit=0", &used_up).await;
        assert_refusal(&first, 400, "MISSING_PARAM");

        for (method, target, key, status, code) in [
            ("BREW", "/v1/nothing?limit=0", None, 404, "NOT_FOUND"),
            ("POST", "/v1/genes?limit=0", None, 405, "METHOD_NOT_ALLOWED"),
            ("POST", "/v1/genes?limit=0", Some(&used_up), 405, "METHOD_NOT_ALLOWED"),
            ("GET", "/v1/genes?limit=0", None, 401, "UNAUTHORIZED"),
            ("GET", "/v1/genes/x/phenotype", None, 401, "UNAUTHORIZED"),
            ("GET", "/v1/arena/insights", None, 401, "UNAUTHORIZED"),
            ("GET", "/v1/genes?limit=0", Some(&used_up), 429, "RATE_LIMITED"),
            ("GET", "/v1/genes/x/phenotype", Some(&used_up), 429, "RATE_LIMITED"),
            ("GET", "/v1/arena/insights", Some(&never), 429, "RATE_LIMITED"),
            ("GET", "/v1/genes/x/phenotype", Some(&setup.key), 400, "INVALID_ID"),
            ("GET", "/v1/arena/insights?domain=%00", Some(&setup.key), 400, "MISSING_PARAM"),
            ("GET", "/v1/arena/insights?domain=none", Some(&setup.key), 404, "NOT_FOUND"),
            ("GET", &format!("/v1{unknown_gene}"), Some(&setup.key), 404, "NOT_FOUND"),
        ] {
            let headers = key.map(|key| ("X-API-Key", key.as_str()));
            let response = replica.raw(method, target, headers.as_slice()).await;
            assert_eq!(response.status, status, "{method} {target}: {response:?}");
            assert_refusal(&response, status, code);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_used_up_limit_is_429_with_its_headers_on_every_operation() {
    let setup = RefusalSetup::start().await;
    for replica in &setup.replicas {
        let (one, never) = (setup.database.new_key(1).await, setup.database.new_key(0).await);
        assert_eq!(replica.raw_get("/genes", &one).await.status, 200);
        for operation in OPERATIONS {
            let response = replica.raw_get(operation, &one).await;
            assert_refusal(&response, 429, "RATE_LIMITED");
            assert_eq!(response.header("x-ratelimit-limit"), "1");
            assert_eq!(response.header("x-ratelimit-remaining"), "0");
            let wait: u64 = response.header("retry-after").parse().unwrap();
            assert!((1..=60).contains(&wait), "{wait}");

            let response = replica.raw_get(operation, &never).await;
            assert_refusal(&response, 429, "RATE_LIMITED");
            assert_eq!(response.header("retry-after"), "60");
        }
    }
}
