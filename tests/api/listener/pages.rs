//! The document and the pages need no key and no other host.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use gene_registry::registry::Catalogue;
use reqwest::Method;
use sha2::{Digest, Sha256};

use super::{ControlledUpstream, TIMEOUT, replica, replica_over};
use crate::support::postgres::PostgresServer;
use crate::support::replica::{READER, Replica, Response, config, sample};
use crate::support::wait::eventually;

const PAGES: [&str; 4] = ["/", "/docs", "/arena", "/genes/any"];

const FILES: [(&str, &str); 15] = [
    ("/", "text/html; charset=utf-8"),
    ("/arena", "text/html; charset=utf-8"),
    ("/arena/main.js", "text/javascript; charset=utf-8"),
    ("/assets/key.js", "text/javascript; charset=utf-8"),
    ("/assets/style.css", "text/css; charset=utf-8"),
    ("/genes/any", "text/html; charset=utf-8"),
    ("/assets/icon.svg", "image/svg+xml"),
    ("/docs", "text/html; charset=utf-8"),
    ("/docs/init.js", "text/javascript; charset=utf-8"),
    ("/docs/swagger-ui-bundle.js", "text/javascript; charset=utf-8"),
    ("/docs/swagger-ui.css", "text/css; charset=utf-8"),
    ("/openapi.json", "application/json"),
    ("/openapi.yaml", "application/yaml"),
    ("/v1/openapi.json", "application/json"),
    ("/v1/openapi.yaml", "application/yaml"),
];

async fn send(replica: &Replica, method: Method, path: &str) -> Response {
    let root = replica.base.strip_suffix("/v1").unwrap();
    replica.send(method, &format!("{root}{path}"), &[]).await
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_and_document_are_served_without_a_key_by_get_and_head() {
    let (replica, _) = replica(|_| {}).await;
    for (path, content_type) in FILES {
        let get = send(&replica, Method::GET, path).await;
        assert_eq!((get.status.as_u16(), get.header("content-type")), (200, content_type));
        assert_ne!(get.text, "", "{path}");
        let head = send(&replica, Method::HEAD, path).await;
        assert_eq!((head.status.as_u16(), head.text.as_str()), (200, ""), "{path}");
        for header in ["content-type", "content-length", "content-security-policy"] {
            assert_eq!(head.header(header), get.header(header), "{path} {header}");
            assert_ne!(get.header(header), "", "{path} {header}");
        }
        for method in [Method::POST, Method::OPTIONS, "BREW".parse().unwrap()] {
            let refused = send(&replica, method, path).await;
            refused.assert_refused(405, "METHOD_NOT_ALLOWED");
            assert_eq!(refused.header("allow"), "GET, HEAD");
        }
        assert_eq!(get.header("ratelimit"), "", "nothing is counted");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn numbers_of_the_registry_are_served_only_if_they_are_public() {
    let database = sample(PostgresServer::shared().await).await;
    let mut config = config(&database.url_as(READER), None);
    let private = Replica::start(&config).await;
    config.pages.public_numbers = true;
    config.pages.domains = vec!["code.testing".to_owned()];
    let public = Replica::start(&config).await;
    eventually(TIMEOUT, "the numbers are known", || async {
        send(&public, Method::GET, "/domains.json").await.status == 200
    })
    .await;

    let genes = Catalogue::sample().unwrap().genes;
    let published = genes.iter().filter(|gene| gene.published);
    let domains: BTreeSet<_> = published.clone().map(|gene| &gene.domain).collect();
    let (genes, domains) = (published.count(), domains.len());
    let numbers = send(&public, Method::GET, "/domains.json").await.json();
    assert_eq!((&numbers["genes"], &numbers["total_domains"]), (&genes.into(), &domains.into()));
    let front = send(&public, Method::GET, "/").await.text;
    assert!(front.contains(&format!("{genes} genes in {domains} domains")), "{front}");
    assert!(front.contains("<a href=\"arena?domain=code.testing\">code.testing</a>"), "{front}");
    assert!(front.contains("<a href=\"genes/"), "{front}");

    assert_eq!(send(&private, Method::GET, "/domains.json").await.status, 204);
    let front = send(&private, Method::GET, "/").await.text;
    assert!(!front.contains("genes in") && !front.contains("<a href=\"genes/"), "{front}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_front_page_shows_the_current_state_of_the_service() {
    let (upstream, _) = ControlledUpstream::new();
    let replica = replica_over(Arc::clone(&upstream), |_| {}).await;
    let says = async |state: &str| {
        let until = Instant::now() + TIMEOUT;
        loop {
            let page = send(&replica, Method::GET, "/").await;
            assert_eq!(page.header("cache-control"), "no-store");
            if page.text.contains(state) {
                return;
            }
            assert!(Instant::now() < until, "{state}: {}", page.text);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    says("All systems operational").await;
    upstream.unavailable.store(true, Ordering::SeqCst);
    says("Serving cached answers only").await;
    upstream.unavailable.store(false, Ordering::SeqCst);
    says("All systems operational").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn files_of_pages_are_revalidated_with_their_entity_tags() {
    let (replica, _) = replica(|_| {}).await;
    for (path, _) in FILES.into_iter().filter(|(path, _)| *path != "/") {
        let plain = replica.raw("GET", path, &[]).await;
        let tag = plain.header("etag");
        let kept =
            if path.contains("openapi") { "public, max-age=3600" } else { "public, no-cache" };
        assert_eq!(
            (plain.header("cache-control"), plain.header("vary")),
            (kept, "Accept-Encoding")
        );
        for method in ["GET", "HEAD"] {
            let again = replica.raw(method, path, &[("if-none-match", tag)]).await;
            assert_eq!((again.status.as_u16(), again.text.as_str()), (304, ""), "{method} {path}");
            assert_eq!(again.header("etag"), tag);
        }
        let gzip = replica.raw("HEAD", path, &[("accept-encoding", "gzip")]).await;
        assert_eq!(gzip.header("content-encoding"), "gzip", "{path}");
        assert_ne!(gzip.header("etag"), tag, "{path}: another coding, another tag");
        let both = [("accept-encoding", "gzip"), ("if-none-match", tag)];
        assert_eq!(replica.raw("GET", path, &both).await.status, 200, "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_pages_policy_allows_only_this_service_and_nothing_inline() {
    let (replica, _) = replica(|_| {}).await;
    for path in PAGES {
        let page = send(&replica, Method::GET, path).await;
        let policy = page.header("content-security-policy");
        let parts: Vec<_> = policy.split("; ").collect();
        for part in
            ["default-src 'none'", "script-src 'self'", "style-src 'self'", "base-uri 'none'"]
        {
            assert!(parts.contains(&part), "{path}: {part}: {policy}");
        }
        for loose in ["unsafe", "*", "http", "blob:"] {
            assert!(!policy.contains(loose), "{path}: {loose}: {policy}");
        }
        assert_eq!(page.header("x-content-type-options"), "nosniff");
        assert_eq!(page.header("referrer-policy"), "no-referrer");
        assert_eq!(page.header("cross-origin-opener-policy"), "same-origin");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_pages_use_only_their_own_files() {
    let (replica, _) = replica(|_| {}).await;
    for path in PAGES {
        let page = send(&replica, Method::GET, path).await.text;
        assert!(!page.contains("<script>") && !page.contains("style="), "nothing inline: {page}");
        let mut references = Vec::new();
        for attribute in ["src=\"", "href=\""] {
            let values = page.split(attribute).skip(1).filter_map(|rest| rest.split('"').next());
            references.extend(values.filter(|value| !value.starts_with('#')));
        }
        assert!(references.len() >= 4, "{references:?}");
        for reference in references {
            assert!(!reference.starts_with('/'), "{reference}: correct under any path prefix");
            let reference = reference.trim_start_matches("./");
            let response = send(&replica, Method::GET, &format!("/{reference}")).await;
            assert_eq!(response.status, 200, "{path}: {reference}");
            if reference.ends_with(".css") {
                assert_alone(reference, &response.text);
            }
        }
    }
    let init = send(&replica, Method::GET, "/docs/init.js").await.text;
    assert!(init.contains("url: \"openapi.json\""), "{init}");
    let shown = send(&replica, Method::GET, "/docs/swagger.js").await.text;
    assert!(shown.contains("validatorUrl: null"), "no validator elsewhere: {shown}");
}

/// Asserts that a style sheet loads nothing else.
fn assert_alone(name: &str, css: &str) {
    assert!(!css.contains("@import"), "{name}");
    for url in css.split("url(").skip(1) {
        assert!(url.trim_start_matches(['"', '\'']).starts_with("data:"), "{name}: {}", &url[..40]);
    }
}

#[test]
fn the_pages_own_scripts_name_no_other_host() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/api/pages");
    for part in ["arena", "docs", "front"] {
        for entry in std::fs::read_dir(folder.join(part)).unwrap() {
            let path = entry.unwrap().path();
            let text = std::fs::read_to_string(&path).unwrap();
            let text = text.replace("http://www.w3.org/2000/svg", "");
            assert!(!text.contains("://"), "{}", path.display());
            assert!(text.lines().count() < 350, "{}", path.display());
        }
    }
}

#[test]
fn the_vendored_files_have_the_recorded_checksums() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/http/swagger_ui");
    let sums = std::fs::read_to_string(folder.join("SHA256SUMS")).unwrap();
    let mut known = BTreeSet::from(["README.md", "SHA256SUMS"]);
    for line in sums.lines() {
        let (sum, name) = line.split_once("  ").unwrap();
        let digest = Sha256::digest(std::fs::read(folder.join(name)).unwrap());
        let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(digest, sum, "{name}");
        known.insert(name);
    }
    let there = std::fs::read_dir(&folder).unwrap();
    let there = there.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let there: BTreeSet<String> = there.collect();
    assert_eq!(there.iter().map(String::as_str).collect::<BTreeSet<_>>(), known);
}

#[tokio::test(flavor = "multi_thread")]
async fn browsers_get_a_page_for_an_unknown_address_and_other_clients_json() {
    let (replica, _) = replica(|_| {}).await;
    let root = replica.base.strip_suffix("/v1").unwrap();
    let get = async |path: &str, accept: &str| {
        replica.send(Method::GET, &format!("{root}{path}"), &[("accept", accept)]).await
    };
    for (path, way_back) in [("/none", "./"), ("/deep/none", "../"), ("/genes/a/b", "../../")] {
        for accept in ["text/html", "application/xhtml+xml, Text/HTML;q=0.9"] {
            let page = get(path, accept).await;
            assert_eq!(page.status, 404);
            assert_eq!(page.header("content-type"), "text/html; charset=utf-8");
            assert!(page.text.contains(&format!("href=\"{way_back}arena\"")), "{}", page.text);
            assert_eq!(page.header("vary"), "Accept");
        }
        for accept in ["*/*", "application/json"] {
            let error = get(path, accept).await;
            error.assert_refused(404, "NOT_FOUND");
            assert_eq!(error.header("vary"), "Accept");
        }
    }
    get("/v1/none", "text/html").await.assert_refused(404, "NOT_FOUND");
    let deep = "/a".repeat(20_000);
    get(&deep, "text/html").await.assert_refused(404, "NOT_FOUND");
    send(&replica, Method::POST, "/none").await.assert_refused(404, "NOT_FOUND");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_with_a_trailing_slash_redirects_by_a_relative_reference() {
    let (replica, _) = replica(|_| {}).await;
    let root = replica.base.strip_suffix("/v1").unwrap();
    let client = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none());
    let client = client.build().unwrap();
    for (path, location) in [
        ("/docs/", "../docs"),
        ("/arena/?domain=a%20b&sort=downloads", "../arena?domain=a%20b&sort=downloads"),
        ("/genes/a%2Fb/", "../a%2Fb"),
    ] {
        let redirect = client.get(format!("{root}{path}")).send().await.unwrap();
        assert_eq!(redirect.status(), 308, "{path}");
        assert_eq!(redirect.headers()["location"], location);
    }
    let long = client.get(format!("{root}/docs/?{}", "x".repeat(20_000))).send().await.unwrap();
    assert_eq!(long.headers()["location"], "../docs");
    for path in ["/none/", "/assets/style.css/", "/v1/genes/"] {
        let other = client.get(format!("{root}{path}")).send().await.unwrap();
        assert_eq!(other.status(), 404, "{path}");
    }
}
