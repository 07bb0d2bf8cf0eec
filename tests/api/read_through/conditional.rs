//! Entity tags and content codings, over both versions of HTTP and on every replica; and the
//! headers for caches along the way.

use std::collections::BTreeSet;
use std::io::Read;

use flate2::read::GzDecoder;
use gene_registry::keys::ApiKey;
use reqwest::header::HeaderMap;
use reqwest::{Client, Version};

use super::{client, fleet, fleet_with_probe, wait_until_ready};
use crate::support::replica::{Fleet, Replica, Response};
use crate::support::traffic::routes;

const VERSIONS: [Version; 2] = [Version::HTTP_11, Version::HTTP_2];

/// A response with its body as received, not decompressed.
#[derive(Debug)]
struct RawResponse {
    status: u16,
    headers: HeaderMap,
    body: Vec<u8>,
}

impl RawResponse {
    fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }
}

async fn send(
    client: &Client,
    replica: &Replica,
    path: &str,
    headers: &[(&str, &str)],
) -> RawResponse {
    let mut request = client.get(format!("{}{path}", replica.base));
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let response = request.send().await.unwrap();
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    RawResponse { status, headers, body: response.bytes().await.unwrap().to_vec() }
}

/// The tag of the compressed form.
fn of_gzip(plain: &str) -> String {
    format!("{}-gzip\"", plain.strip_suffix('"').unwrap())
}

/// Checks which headers a 304 has, and which it must not have.
#[track_caller]
fn assert_not_modified(response: &RawResponse, tag: &str) {
    assert_eq!(response.status, 304, "{response:?}");
    assert!(response.body.is_empty(), "{response:?}");
    assert_eq!(response.header("etag"), tag);
    assert_eq!(response.header("vary"), "X-API-Key, Accept-Encoding");
    assert!(response.header("cache-control").starts_with("private, max-age="), "{response:?}");
    for name in ["age", "cache-status", "x-request-id", "ratelimit", "ratelimit-policy"] {
        assert!(response.headers.contains_key(name), "{name}: {response:?}");
    }
    for name in ["content-type", "content-encoding"] {
        assert!(!response.headers.contains_key(name), "{name}: {response:?}");
    }
    assert!(["", "0"].contains(&response.header("content-length")), "{response:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entity_tag_in_any_form_yields_304_on_every_replica_with_and_without_compression() {
    let fleet = fleet().await;
    let key = fleet.database.new_key(1_000_000).await;
    let mut paths = routes(&fleet.database).await.to_vec();
    // Too short to be compressed.
    paths.push("/genes?domain=nobody".to_owned());
    for version in VERSIONS {
        let client = client(version);
        for path in &paths {
            let first = send(&client, &fleet.replicas[0], path, &[("X-API-Key", &key)]).await;
            let plain_tag = first.header("etag").to_owned();
            for replica in &fleet.replicas {
                for coding in ["", "gzip", "br, gzip;q=0.5", "gzip;q=0", "identity"] {
                    let ask = async |tag: &str| {
                        let key = ("X-API-Key", key.as_str());
                        let headers = [key, ("Accept-Encoding", coding), ("If-None-Match", tag)];
                        send(&client, replica, path, &headers).await
                    };
                    let whole = ask("\"other\"").await;
                    assert_eq!(whole.status, 200, "{whole:?}");
                    let tag = whole.header("etag").to_owned();
                    let is_gzip = whole.header("content-encoding") == "gzip";
                    let accepted = coding.contains("gzip") && !coding.ends_with("q=0");
                    assert_eq!(is_gzip, accepted && first.body.len() >= 1024, "{coding}");
                    if is_gzip {
                        assert_eq!(tag, of_gzip(&plain_tag), "a tag of its own");
                        let mut plain = Vec::new();
                        GzDecoder::new(&whole.body[..]).read_to_end(&mut plain).unwrap();
                        assert_eq!(plain, first.body, "the same JSON");
                    } else {
                        assert_eq!((&tag, &whole.body), (&plain_tag, &first.body));
                    }
                    let forms = [
                        tag.clone(),
                        format!("W/{tag}"),
                        format!("\"x\", \"y,z\",W/\"w\" ,{tag}"),
                        format!("\"x\",W/{tag}, \"y\""),
                        "*".to_owned(),
                    ];
                    for form in &forms {
                        assert_not_modified(&ask(form).await, &tag);
                    }
                    // The tag of the other coding, or no valid tag at all.
                    let other = if is_gzip { plain_tag.clone() } else { of_gzip(&plain_tag) };
                    for form in [
                        other.as_str(),
                        tag.trim_matches('"'),
                        "\"\"",
                        "",
                        "\"*\"",
                        "W/",
                        "\"unfinished",
                    ] {
                        let response = ask(form).await;
                        assert_eq!((response.status, &response.body), (200, &whole.body), "{form}");
                    }
                }
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_precede_conditions_and_a_304_counts_against_the_limit() {
    let fleet = fleet().await;
    let key = fleet.database.new_key(6).await;
    let stranger = ApiKey::generate().unwrap();
    for version in VERSIONS {
        let client = client(version);
        for replica in &fleet.replicas {
            for path in routes(&fleet.database).await {
                for key in [stranger.expose(), "gr_wrong", ""] {
                    let headers = [("X-API-Key", key), ("If-None-Match", "*")];
                    let response = send(&client, replica, &path, &headers).await;
                    assert_eq!(response.status, 401, "{response:?}");
                    assert_eq!(response.header("etag"), "", "{response:?}");
                }
            }
        }
    }
    let client = client(Version::HTTP_11);
    let headers = [("X-API-Key", key.as_str()), ("If-None-Match", "*")];
    let requests = [
        ("/genes", 304),
        ("/genes", 304),
        ("/genes?limit=0", 400),
        ("/genes/00000000-0000-0000-0000-000000000001/phenotype", 404),
        ("/arena/insights?domain=search", 304),
        ("/genes", 304),
        ("/genes", 429),
    ];
    for (n, (path, status)) in requests.into_iter().enumerate() {
        let response = send(&client, &fleet.replicas[n % 3], path, &headers).await;
        assert_eq!(response.status, status, "{path}: {response:?}");
        let remaining: i64 = response.header("x-ratelimit-remaining").parse().unwrap();
        assert_eq!(remaining, (5 - n as i64).max(0), "{path}");
    }
}

/// Checks that no shared cache with default rules (RFC 9111, section 3) may store the response.
#[track_caller]
fn assert_no_shared_cache_keeps(response: &Response) {
    let control = response.header("cache-control");
    let mut directives = control.split(',').map(str::trim);
    assert!(directives.clone().any(|word| word == "private" || word == "no-store"), "{response:?}");
    assert!(
        !directives.any(|word| word == "public" || word.starts_with("s-maxage")),
        "{response:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn every_response_is_private_and_varies_by_key() {
    let (fleet, probe) = fleet_with_probe(|_| {}).await;
    let (key, spent) = (fleet.database.new_key(1_000_000).await, fleet.database.new_key(0).await);
    let mut seen = BTreeSet::new();
    for path in routes(&fleet.database).await {
        let whole = fleet.replicas[0].get(&path, Some(&key)).await;
        let tag = whole.header("etag").to_owned();
        let (key, spent) = (("X-API-Key", key.as_str()), ("X-API-Key", spent.as_str()));
        let absent = "/arena/insights?domain=none".to_owned();
        let wrong = "/genes?limit=x".to_owned();
        let requests: Vec<(String, Vec<(&str, &str)>)> = vec![
            (path.clone(), vec![key]),
            (path.clone(), vec![key, ("Accept-Encoding", "gzip")]),
            (path.clone(), vec![key, ("If-None-Match", &tag)]),
            (path.clone(), vec![]),
            (path.clone(), vec![spent]),
            (wrong, vec![key]),
            (absent, vec![key]),
        ];
        for replica in &fleet.replicas {
            for (path, headers) in &requests {
                seen.insert(check(replica, path, headers).await);
            }
        }
        probe.set_failing(true);
        let unread = crate::support::traffic::uncached_path();
        seen.insert(check(&fleet.replicas[1], &unread, &[key]).await);
        probe.set_failing(false);
    }
    // The database answers, but not this statement in time.
    let lock = fleet.database.lock_genes().await;
    let unread = crate::support::traffic::uncached_path();
    seen.insert(check(&fleet.replicas[2], &unread, &[("X-API-Key", &key)]).await);
    lock.batch_execute("rollback").await.unwrap();
    let expected = [200, 304, 400, 401, 404, 429, 502, 503];
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), expected);
}

/// Sends a request, checks what holds for every response, and returns its status.
async fn check(replica: &Replica, path: &str, headers: &[(&str, &str)]) -> u16 {
    let url = format!("{}{path}", replica.base);
    let response = replica.send(reqwest::Method::GET, &url, headers).await;
    assert_no_shared_cache_keeps(&response);
    assert_eq!(response.header("vary"), "X-API-Key, Accept-Encoding", "{response:?}");
    let is_error = response.status.as_u16() >= 400;
    assert_eq!(response.header("cache-control") == "no-store", is_error, "{response:?}");
    response.status.as_u16()
}

/// A replica that found the entry in Redis gives it the same tags as the one that read it.
#[tokio::test(flavor = "multi_thread")]
async fn entity_tags_do_not_depend_on_the_source_of_the_entry() {
    let mut fleet: Fleet<'_> = fleet().await;
    let key = fleet.database.new_key(1_000_000).await;
    let client = client(Version::HTTP_11);
    let headers = [("X-API-Key", key.as_str()), ("Accept-Encoding", "gzip")];
    let read = send(&client, &fleet.replicas[0], "/genes", &headers).await;
    let shared = send(&client, &fleet.replicas[1], "/genes", &headers).await;
    let local = send(&client, &fleet.replicas[1], "/genes", &headers).await;
    fleet.config.redis.url = None;
    fleet.grow(1).await;
    wait_until_ready(&fleet.replicas[3..]).await;
    let alone = send(&client, &fleet.replicas[3], "/genes", &headers).await;

    assert_eq!(shared.header("cache-status").split("detail=").nth(1), Some("shared"));
    assert_eq!(local.header("cache-status").split("detail=").nth(1), Some("local"));
    for response in [&shared, &local, &alone] {
        assert_eq!(response.header("etag"), read.header("etag"));
        assert_eq!(response.header("link"), read.header("link"));
        assert!(response.header("etag").ends_with("-gzip\""));
    }
}
