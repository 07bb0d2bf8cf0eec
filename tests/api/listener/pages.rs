//! The document and the docs page: no key, no other host.

use std::collections::BTreeSet;
use std::path::Path;

use reqwest::Method;
use sha2::{Digest, Sha256};

use super::replica;
use crate::support::replica::{Answer, Replica};

const FILES: [(&str, &str); 9] = [
    ("/docs", "text/html; charset=utf-8"),
    ("/docs/init.js", "text/javascript; charset=utf-8"),
    ("/docs/swagger-ui-bundle.js", "text/javascript; charset=utf-8"),
    ("/docs/swagger-ui.css", "text/css; charset=utf-8"),
    ("/docs/favicon-32x32.png", "image/png"),
    ("/openapi.json", "application/json"),
    ("/openapi.yaml", "application/yaml"),
    ("/v1/openapi.json", "application/json"),
    ("/v1/openapi.yaml", "application/yaml"),
];

async fn ask(replica: &Replica, method: Method, path: &str) -> Answer {
    let root = replica.base.strip_suffix("/v1").unwrap();
    replica.send(method, &format!("{root}{path}"), &[]).await
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_and_document_are_served_without_a_key_by_get_and_head() {
    let (replica, _) = replica(|_| {}).await;
    for (path, content_type) in FILES {
        let get = ask(&replica, Method::GET, path).await;
        assert_eq!((get.status.as_u16(), get.header("content-type")), (200, content_type));
        assert_ne!(get.text, "", "{path}");
        let head = ask(&replica, Method::HEAD, path).await;
        assert_eq!((head.status.as_u16(), head.text.as_str()), (200, ""), "{path}");
        for header in ["content-type", "content-length", "content-security-policy"] {
            assert_eq!(head.header(header), get.header(header), "{path} {header}");
            assert_ne!(get.header(header), "", "{path} {header}");
        }
        for method in [Method::POST, Method::OPTIONS, "BREW".parse().unwrap()] {
            let refused = ask(&replica, method, path).await;
            refused.assert_refused(405, "METHOD_NOT_ALLOWED");
            assert_eq!(refused.header("allow"), "GET, HEAD");
        }
        assert_eq!(get.header("ratelimit"), "", "nothing is counted");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_front_page_leads_to_the_docs_under_any_path_prefix() {
    let (replica, _) = replica(|_| {}).await;
    for method in ["GET", "HEAD"] {
        let answer = replica.raw(method, "/", &[]).await;
        assert_eq!((answer.status.as_u16(), answer.header("location")), (302, "docs"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_pages_policy_allows_this_service_alone_and_nothing_inline() {
    let (replica, _) = replica(|_| {}).await;
    let page = ask(&replica, Method::GET, "/docs").await;
    let policy = page.header("content-security-policy");
    let parts: Vec<_> = policy.split("; ").collect();
    for part in ["default-src 'none'", "script-src 'self'", "connect-src 'self'", "base-uri 'none'"]
    {
        assert!(parts.contains(&part), "{part}: {policy}");
    }
    for loose in ["unsafe", "*", "http", "blob:"] {
        assert!(!policy.contains(loose), "{loose}: {policy}");
    }
    assert_eq!(page.header("x-content-type-options"), "nosniff");
    assert_eq!(page.header("referrer-policy"), "no-referrer");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_docs_page_asks_for_its_own_files_alone() {
    let (replica, _) = replica(|_| {}).await;
    let page = ask(&replica, Method::GET, "/docs").await.text;
    let init = ask(&replica, Method::GET, "/docs/init.js").await.text;
    for text in [&page, &init] {
        assert!(!text.contains("://"), "no other host: {text}");
    }
    let mut references = Vec::new();
    for attribute in ["src=\"", "href=\""] {
        let values = page.split(attribute).skip(1).filter_map(|rest| rest.split('"').next());
        references.extend(values);
    }
    assert!(references.len() >= 4, "{references:?}");
    for reference in references {
        assert!(!reference.starts_with('/'), "{reference}: right under any path prefix");
        let answer = ask(&replica, Method::GET, &format!("/{reference}")).await;
        assert_eq!(answer.status, 200, "{reference}");
    }
    assert!(!page.contains("<script>") && !page.contains("style="), "nothing inline: {page}");
    assert!(init.contains("url: \"openapi.json\""), "{init}");
    assert!(init.contains("validatorUrl: null"), "no validator elsewhere: {init}");
    let css = ask(&replica, Method::GET, "/docs/swagger-ui.css").await.text;
    for url in css.split("url(").skip(1) {
        assert!(url.trim_start_matches(['"', '\'']).starts_with("data:"), "{}", &url[..40]);
    }
    assert!(!css.contains("@import"));
}

#[test]
fn the_vendored_files_have_the_checksums_that_are_written_down() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/api/swagger_ui");
    let sums = std::fs::read_to_string(folder.join("SHA256SUMS")).unwrap();
    let mut known = BTreeSet::from(["README.md", "SHA256SUMS", "index.html", "init.js"]);
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
