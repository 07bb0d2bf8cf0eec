//! Long URLs, many headers, request heads beyond the bounds of the HTTP layer, request ids.

use super::{OPERATIONS, RefusalSetup, assert_refusal, is_request_id};
use crate::support::raw::{address, exchange};

/// The operation's target, padded to `length` bytes with an unknown parameter.
fn padded(operation: &str, length: usize) -> String {
    let separator = if operation.contains('?') { '&' } else { '?' };
    let mut target = format!("{operation}{separator}pad=");
    let missing = length - "/v1".len() - target.len();
    target.extend(std::iter::repeat_n('x', missing));
    target
}

#[tokio::test(flavor = "multi_thread")]
async fn urls_of_up_to_8_kib_are_served_and_longer_ones_are_400() {
    let setup = RefusalSetup::start().await;
    for operation in OPERATIONS {
        for response in setup.raw_get(&padded(operation, 8192)).await {
            assert_eq!(response.status, 200, "{operation}: {response:?}");
        }
        for length in [8193, 20_000, 60_000] {
            for response in setup.raw_get(&padded(operation, length)).await {
                assert_refusal(&response, 400, "MISSING_PARAM");
                assert_ne!(response.header("x-ratelimit-remaining"), "", "the request was counted");
            }
            let target = format!("/v1{}", padded(operation, length));
            for replica in &setup.replicas {
                assert_refusal(&replica.raw("GET", &target, &[]).await, 401, "UNAUTHORIZED");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ids_of_8_to_60_kilobytes_are_refused_as_ids() {
    let setup = RefusalSetup::start().await;
    for length in [8_000, 8_192, 20_000, 60_000] {
        let id = "a".repeat(length);
        for response in setup.raw_get(&format!("/genes/{id}/phenotype")).await {
            assert_refusal(&response, 400, "INVALID_ID");
            assert!(response.text.len() < 300, "{response:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_hundred_headers_are_served() {
    let setup = RefusalSetup::start().await;
    let names: Vec<String> = (0..200).map(|n| format!("X-Extra-{n}")).collect();
    let mut headers: Vec<_> = names.iter().map(|name| (name.as_str(), "value")).collect();
    headers.push(("X-API-Key", &setup.key));
    for replica in &setup.replicas {
        for operation in OPERATIONS {
            let response = replica.raw("GET", &format!("/v1{operation}"), &headers).await;
            assert_eq!(response.status, 200, "{response:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn heads_beyond_the_http_layers_bounds_are_a_bare_4xx() {
    let setup = RefusalSetup::start().await;
    let many: String = (0..300).map(|n| format!("X-Extra-{n}: value\r\n")).collect();
    let large = format!("X-Large: {}\r\n", "x".repeat(70_000));
    let key = format!("X-API-Key: {}\r\n", setup.key);
    for replica in &setup.replicas {
        let address = address(&replica.base);
        for request in [
            format!("GET /v1/genes HTTP/1.1\r\nHost: test\r\n{key}{many}\r\n"),
            format!("GET /v1/genes HTTP/1.1\r\nHost: test\r\n{key}{large}\r\n"),
            format!("GET /v1/{} HTTP/1.1\r\nHost: test\r\n\r\n", "x".repeat(70_000)),
            format!("GET /v1/genes HTTP/1.1\r\nHost: test\r\n{key}no colon\r\n\r\n"),
            "GET /v1/ge nes HTTP/1.1\r\nHost: test\r\n\r\n".to_owned(),
            "GET /v1/genes HTTP/9.9\r\nHost: test\r\n\r\n".to_owned(),
            "what is this?\r\n\r\n".to_owned(),
        ] {
            let response = exchange(&address, request.as_bytes()).await;
            let begin = &request[..40.min(request.len())];
            assert!(response.status.is_client_error(), "{begin:?}: {response:?}");
            assert_eq!(response.text, "", "{begin:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_id_is_kept_only_if_well_formed() {
    let setup = RefusalSetup::start().await;
    let good = ["a", "A.b_c-9", &"x".repeat(64)];
    let bad = ["", "a b", "a\"b", "a/b", "a,b", "é", &"x".repeat(65), "<script>"];
    for replica in &setup.replicas {
        for (path, key) in [("/v1/genes", Some(&setup.key)), ("/v1/genes", None), ("/none", None)] {
            let ask = async |id: &str| {
                let mut headers = vec![("X-Request-Id", id)];
                headers.extend(key.map(|key| ("X-API-Key", key.as_str())));
                let response = replica.raw("GET", path, &headers).await;
                assert_eq!(response.headers.get_all("x-request-id").iter().count(), 1);
                response.header("x-request-id").to_owned()
            };
            for id in good {
                assert_eq!(ask(id).await, id);
            }
            let mut given = std::collections::HashSet::new();
            for id in bad {
                let own = ask(id).await;
                assert!(is_request_id(&own) && own != id, "{id:?}: {own:?}");
                assert!(given.insert(own), "each request has its own");
            }
        }
    }
}
