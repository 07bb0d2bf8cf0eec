//! Serving the document: versions, entity tags and the server URL.

use std::sync::Arc;

use gene_registry::config::Config;
use gene_registry::registry::{Catalogue, Timestamp};
use gene_registry::upstream::Embedded;
use reqwest::Method;
use serde_json::{Value, json};

use crate::support::haproxy::HaProxy;
use crate::support::replica::{Replica, Response, config};

async fn replica(change: impl FnOnce(&mut Config)) -> Replica {
    let mut config = config("", None);
    change(&mut config);
    let sample = Catalogue::sample().unwrap();
    let upstream = Embedded::from_catalogue(&sample, Timestamp::now(), vec![], String::new());
    Replica::with_upstream(&config, Arc::new(upstream)).await
}

async fn document(replica: &Replica, query: &str, headers: &[(&str, &str)]) -> Response {
    replica.send(Method::GET, &format!("{}/openapi.json{query}", replica.base), headers).await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_version_is_400_with_the_error_body() {
    let replica = replica(|_| {}).await;
    for query in ["?version=", "?version=2", "?version=3.2", "?version=3.1&version=3.1"] {
        let refused = document(&replica, query, &[]).await;
        refused.assert_refused(400, "MISSING_PARAM");
        assert!(refused.json()["error"].as_str().unwrap().starts_with("version must be "));
    }
    let other = document(&replica, "?v=3.1", &[]).await;
    assert_eq!(other.json()["openapi"], "3.0.3", "unknown parameters are ignored");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_has_the_document_gets_304() {
    let replica = replica(|_| {}).await;
    let (old, new) =
        (document(&replica, "", &[]).await, document(&replica, "?version=3.1", &[]).await);
    assert_ne!(old.header("etag"), new.header("etag"));
    for (query, response) in [("", &old), ("?version=3.1", &new)] {
        let tag = response.header("etag");
        for list in [tag, &format!("W/{tag}"), "*", &format!("\"x\", {tag}")] {
            let again = document(&replica, query, &[("If-None-Match", list)]).await;
            assert_eq!((again.status.as_u16(), again.text.as_str()), (304, ""), "{list}");
            assert_eq!(again.header("etag"), tag);
        }
        let other = document(&replica, query, &[("If-None-Match", "\"x\"")]).await;
        assert_eq!(other.text, response.text);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_newer_version_describes_the_same_api() {
    let replica = replica(|_| {}).await;
    let old = document(&replica, "", &[]).await;
    for unused in ["nullable", "exclusiveMinimum", "exclusiveMaximum", "discriminator"] {
        assert!(
            !old.text.contains(&format!("\"{unused}\":")),
            "{unused} means another thing in 3.1"
        );
    }
    let (mut old, new) = (old.json(), document(&replica, "?version=3.1", &[]).await.json());
    assert_eq!((&old["openapi"], &new["openapi"]), (&json!("3.0.3"), &json!("3.1.0")));
    old["openapi"] = "3.1.0".into();
    assert!(old == new, "no schema has an example of its own, so nothing else differs");
}

#[tokio::test(flavor = "multi_thread")]
async fn only_trusted_proxies_decide_the_server_url() {
    let told: &[(&str, &str)] = &[
        ("X-Forwarded-Proto", "https"),
        ("X-Forwarded-Host", "api.example"),
        ("X-Forwarded-Prefix", "/genes/"),
    ];
    let forwarded: &[(&str, &str)] = &[("Forwarded", "for=192.0.2.1;proto=https;host=api.example")];
    let (trusted, other) = ("127.0.0.0/8", "10.0.0.0/8");
    for (networks, public_url, headers, server) in [
        (trusted, None, told, "https://api.example/genes/v1"),
        (trusted, None, forwarded, "https://api.example/v1"),
        (trusted, None, &[][..], "/v1"),
        (other, None, told, "/v1"),
        (trusted, Some("https://fixed.example"), told, "https://fixed.example/v1"),
    ] {
        let replica = replica(|config| {
            config.server.trusted_proxies = vec![networks.parse().unwrap()];
            config.server.public_url = public_url.map(str::to_owned);
        })
        .await;
        let response = document(&replica, "", headers).await;
        assert_eq!(response.json()["servers"], json!([{ "url": server }]), "{headers:?}");
        let vary = response.header("vary");
        assert!(vary.contains("Accept-Encoding"), "{response:?}");
        assert_eq!(vary.contains("X-Forwarded-Host"), public_url.is_none(), "{response:?}");
        let url = format!("{}/openapi.yaml", replica.base);
        let yaml = replica.send(Method::GET, &url, headers).await.text;
        let yaml: Value = serde_saphyr::from_str(&yaml).unwrap();
        assert!(yaml == response.json());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_demo_documents_its_own_address_to_clients_that_use_it() {
    let replica = replica(|config| config.server.documents_own_address = true).await;
    let port = replica.base.strip_suffix("/v1").unwrap().rsplit_once(':').unwrap().1;
    let (ip, name) = (format!("127.0.0.1:{port}"), format!("localhost:{port}"));
    let other = format!("genes.example:{port}");
    for (host, headers, server) in [
        (ip.as_str(), &[][..], format!("http://{ip}/v1")),
        (&name, &[], format!("http://{name}/v1")),
        (&other, &[], "/v1".to_owned()),
        ("127.0.0.1:1", &[], "/v1".to_owned()),
        ("127.0.0.1", &[], "/v1".to_owned()),
        (&ip, &[("X-Forwarded-For", "192.0.2.1")], "/v1".to_owned()),
        (&ip, &[("Forwarded", "for=192.0.2.1")], "/v1".to_owned()),
        (&ip, &[("X-Forwarded-Port", "443")], "/v1".to_owned()),
        (&ip, &[("X-Real-IP", "192.0.2.1")], "/v1".to_owned()),
    ] {
        let headers: Vec<_> = headers.iter().copied().chain([("Host", host)]).collect();
        let response = document(&replica, "", &headers).await;
        assert_eq!(response.json()["servers"], json!([{ "url": server }]), "{headers:?}");
        assert_eq!(response.header("cache-control"), "private, max-age=3600");
        assert!(response.header("vary").contains("Host"), "{response:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_address_gets_its_own_document_in_every_coding() {
    let replica =
        replica(|config| config.server.trusted_proxies = vec!["127.0.0.1".parse().unwrap()]).await;
    let told = |host: &'static str| [("X-Forwarded-Proto", "https"), ("X-Forwarded-Host", host)];
    let mut tags = Vec::new();
    // More addresses than are cached, and then the first ones again.
    let hosts: Vec<&'static str> = (0..40).map(|n| &*format!("h{n}.example").leak()).collect();
    for host in hosts.iter().chain(&hosts[..3]) {
        let mut headers = told(host).to_vec();
        let plain = document(&replica, "", &headers).await;
        let server = format!("https://{host}/v1");
        assert_eq!(plain.json()["servers"], json!([{ "url": server }]));
        headers.push(("Accept-Encoding", "gzip"));
        let gzip = replica.raw("HEAD", "/v1/openapi.json", &headers).await;
        assert_eq!(gzip.header("content-encoding"), "gzip", "{host}");
        assert_ne!(gzip.header("etag"), plain.header("etag"), "another coding, another tag");
        tags.push(plain.header("etag").to_owned());
    }
    assert_eq!(tags[..3], tags[40..], "the same text, the same tag");
    tags.truncate(40);
    tags.sort();
    tags.dedup();
    assert_eq!(tags.len(), 40, "another text, another tag");
}

#[tokio::test(flavor = "multi_thread")]
async fn made_up_addresses_soon_get_the_document_without_an_address() {
    let replica =
        replica(|config| config.server.trusted_proxies = vec!["127.0.0.1".parse().unwrap()]).await;
    let mut without = 0;
    for number in 0..300 {
        let host = format!("h{number}.example");
        let servers = document(&replica, "", &[("X-Forwarded-Host", &host)]).await.json();
        without += usize::from(servers["servers"] == json!([{ "url": "/v1" }]));
    }
    assert!(without > 0, "each text takes milliseconds");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_document_that_depends_on_the_headers_of_proxies_is_private() {
    let (private, public) = ("private, max-age=3600", "public, max-age=3600");
    for (networks, public_url, cache_control) in [
        (vec!["127.0.0.1".parse().unwrap()], None, private),
        (vec!["127.0.0.1".parse().unwrap()], Some("https://fixed.example"), public),
        (vec![], None, public),
    ] {
        let replica = replica(|config| {
            config.server.trusted_proxies = networks;
            config.server.public_url = public_url.map(str::to_owned);
        })
        .await;
        for path in ["/v1/openapi.json", "/v1/openapi.yaml", "/openapi.json", "/openapi.yaml"] {
            let response = replica.raw("GET", path, &[("X-Forwarded-Host", "evil.example")]).await;
            assert_eq!(response.status, 200, "{response:?}");
            assert_eq!(response.header("cache-control"), cache_control, "{path}");
            let tag = [("If-None-Match", response.header("etag"))];
            let again = replica.raw("GET", path, &tag).await;
            assert_eq!(
                (again.status.as_u16(), again.header("cache-control")),
                (304, cache_control)
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quoted_comma_in_forwarded_belongs_to_its_value() {
    let replica =
        replica(|config| config.server.trusted_proxies = vec!["127.0.0.1".parse().unwrap()]).await;
    for (forwarded, server) in [
        (r#"for=192.0.2.1;host="a, proto=https;host=evil.example""#, "/v1"),
        (r#"by="a, b";proto=https;host=api.example"#, "https://api.example/v1"),
        (r#"by="\", proto=http;host=evil";proto=https;host=api.example"#, "https://api.example/v1"),
        // A client leaves a quote open before what its proxy appends.
        (r#"by="a, proto=https;host=api.example"#, "/v1"),
    ] {
        let response = document(&replica, "", &[("Forwarded", forwarded)]).await;
        assert_eq!(response.json()["servers"], json!([{ "url": server }]), "{forwarded}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_balancer_replaces_what_clients_claim_about_themselves() {
    let replica =
        replica(|config| config.server.trusted_proxies = vec!["127.0.0.1".parse().unwrap()]).await;
    let balancer = HaProxy::start(&replica.base, &replica.ops).await;
    let claims: &[(&str, &str)] = &[
        ("X-Forwarded-Proto", "https"),
        ("x-forwarded-host", "evil.example"),
        ("X-FORWARDED-PREFIX", "/evil"),
        ("X-Forwarded-For", "192.0.2.1, 127.0.0.1"),
        ("X-Forwarded-Port", "443"),
        ("Forwarded", "for=192.0.2.1;proto=https;host=evil.example"),
    ];
    for host in ["127.0.0.1", "[::1]"] {
        let root = balancer.url(host);
        for headers in [&[][..], claims] {
            let url = format!("{root}/v1/openapi.json");
            let response = replica.send(Method::GET, &url, headers).await;
            let server = json!([{ "url": format!("{root}/v1") }]);
            assert_eq!(response.json()["servers"], server, "{headers:?}");
            assert_eq!(response.header("cache-control"), "private, max-age=3600");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_proxy_is_trusted_by_default() {
    let replica = replica(|_| {}).await;
    let response = document(&replica, "", &[("X-Forwarded-Prefix", "/x")]).await;
    assert_eq!(response.json()["servers"], json!([{ "url": "/v1" }]));
    assert_eq!(response.header("vary"), "Accept-Encoding");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_document_has_the_extensions_that_the_framework_lacks() {
    let document = document(&replica(|_| {}).await, "", &[]).await.json();
    assert_eq!(document["security"], json!([{ "ApiKey": [] }]));
    assert!(document["x-speakeasy-retries"]["statusCodes"].is_array());
    let paths = document["paths"].as_object().unwrap();
    assert!(paths["/genes"]["get"]["x-speakeasy-pagination"].is_object());
    for (path, item) in paths {
        let samples = item["get"]["x-codeSamples"].as_array().unwrap();
        let languages: Vec<_> = samples.iter().map(|sample| &sample["lang"]).collect();
        assert_eq!(languages, ["Shell", "Python", "TypeScript", "Rust"], "{path}");
        for (status, response) in item["get"]["responses"].as_object().unwrap() {
            for (name, header) in response["headers"].as_object().unwrap() {
                assert!(!header["example"].is_null(), "{path} {status} {name}");
            }
            let example = &response["content"]["application/json"]["example"];
            assert!(status == "304" || example.is_object(), "{path} {status}");
        }
    }
}
