//! HTTP/2 by prior knowledge.

use std::sync::Arc;

use futures_util::future::join_all;
use reqwest::Version;

use super::{ControlledUpstream, replica, replica_over};

fn client() -> reqwest::Client {
    reqwest::Client::builder().http2_prior_knowledge().build().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn http2_is_served_by_prior_knowledge_like_http1() {
    let (replica, key) = replica(|_| {}).await;
    let client = client();
    for (path, key, status) in [
        ("/genes", key.as_str(), 200),
        ("/genes", "", 401),
        ("/genes?limit=0", &key, 400),
        ("/none", &key, 404),
        ("/openapi.json", "", 200),
    ] {
        let url = format!("{}{path}", replica.base);
        let response = client.get(&url).header("X-API-Key", key).send().await.unwrap();
        assert_eq!((response.version(), response.status().as_u16()), (Version::HTTP_2, status));
        let http2 = response.text().await.unwrap();
        let key = Some(key).filter(|key| !key.is_empty());
        assert_eq!(http2, replica.get(path, key).await.text, "{path}");
    }
    let url = format!("{}/genes", replica.base);
    let refused = client.request("BREW".parse().unwrap(), &url).send().await.unwrap();
    assert_eq!(
        (refused.status().as_u16(), &refused.headers()["allow"]),
        (405, &"GET".parse().unwrap())
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn heads_have_no_body_and_leave_their_connection_whole() {
    let (replica, key) = replica(|config| config.server.max_connections = 1).await;
    let (client, root) = (client(), replica.base.trim_end_matches("/v1").to_owned());
    for (path, status) in
        [("/docs", 200), ("/", 200), ("/v1/openapi.json", 200), ("/v1/genes", 405)]
    {
        let head = client.head(format!("{root}{path}")).header("X-API-Key", &key).send().await;
        let head = head.unwrap();
        assert_eq!(head.status(), status, "{path}");
        assert_eq!(head.bytes().await.unwrap().len(), 0, "{path}");
        let next = client.get(format!("{root}/docs")).send().await.unwrap();
        assert!(!next.bytes().await.unwrap().is_empty(), "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn many_requests_share_one_http2_connection() {
    let (replica, key) = replica(|config| config.server.max_connections = 1).await;
    let client = client();
    let url = format!("{}/genes", replica.base);
    let requests =
        (0..200).map(|n| client.get(format!("{url}?offset={n}")).header("X-API-Key", &key).send());
    for response in join_all(requests).await {
        assert_eq!(response.unwrap().status(), 200);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_head_of_more_fields_than_http1_takes_is_431_and_the_connection_goes_on() {
    let (replica, key) = replica(|config| config.server.max_connections = 1).await;
    let (client, url) = (client(), format!("{}/genes", replica.base));
    for (fields, status) in [(200, 200), (257, 431), (600, 431), (0, 200)] {
        let mut request = client.get(&url).header("X-API-Key", &key);
        for number in 0..fields {
            request = request.header(format!("x-extra-{number}"), "value");
        }
        assert_eq!(request.send().await.unwrap().status(), status, "{fields}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn heads_in_progress_are_bounded_together_unless_the_peer_is_a_trusted_proxy() {
    for is_trusted in [false, true] {
        let (upstream, key) = ControlledUpstream::new();
        let replica = replica_over(Arc::clone(&upstream), |config| {
            if is_trusted {
                config.server.trusted_proxies.push("127.0.0.1".parse().unwrap());
            }
        })
        .await;
        let (client, padding) = (client(), "x".repeat(40_000));
        let get = async |path: &str, padding: &str| {
            let request = client.get(format!("{}{path}", replica.base)).header("X-API-Key", &key);
            request.header("x-padding", padding).send().await.unwrap().status()
        };
        let (first, second) = ("/arena/insights?domain=search", "/arena/insights?domain=none");
        upstream.hold();
        let meanwhile = async {
            upstream.started().await;
            assert_eq!(get("/genes", "").await, 200, "there is room for a small head");
            let release = async {
                if is_trusted {
                    upstream.started().await;
                    upstream.release();
                }
            };
            let (status, ()) = tokio::join!(get(second, &padding), release);
            if !is_trusted {
                upstream.release();
            }
            status
        };

        let (first_status, second_status) = tokio::join!(get(first, &padding), meanwhile);

        assert_eq!(first_status, 200);
        assert_eq!(second_status, if is_trusted { 404 } else { 431 });
        assert_eq!(get(second, &padding).await, 404, "there is room again");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_head_beyond_the_bound_ends_its_request_alone() {
    let (replica, key) = replica(|_| {}).await;
    let client = client();
    let url = format!("{}/genes", replica.base);
    let large = client.get(&url).header("X-Large", "x".repeat(70_000)).send().await;
    assert!(large.is_err() || large.is_ok_and(|response| response.status().is_client_error()));
    let response = client.get(&url).header("X-API-Key", &key).send().await.unwrap();
    assert_eq!(response.status(), 200);
}
