//! Invalid parameters, and unusual valid ones.

use super::{GENE, RefusalSetup, assert_names, assert_refusal};

/// Values that are no numbers, and how the error shows them.
const BAD_NUMBERS: [(&str, &str); 15] = [
    ("%2B5", "+5"),
    ("+5", " 5"),
    ("5.0", "5.0"),
    ("5,0", "5,0"),
    ("1e1", "1e1"),
    ("0x5", "0x5"),
    ("%D9%A5", "٥"),
    ("%EF%BC%95", "５"),
    ("", ""),
    ("-1", "-1"),
    ("2147483648", "2147483648"),
    ("99999999999999999999", "99999999999999999999"),
    ("5%00", "5\0"),
    ("%zz", "%zz"),
    ("%ff", "%ff"),
];

const BAD_CHOICES: [(&str, &str); 6] = [
    ("", ""),
    ("native", "native"),
    ("FITNESS", "FITNESS"),
    ("Native%20", "Native "),
    ("Native,Hybrid", "Native,Hybrid"),
    ("%4", "%4"),
];

const BAD_DOMAINS: [(&str, &str); 12] = [
    ("%", "%"),
    ("%4", "%4"),
    ("%zz", "%zz"),
    ("a%2", "a%2"),
    ("%ff", "%ff"),
    ("%C3", "%C3"),
    ("%ED%A0%80", "%ED%A0%80"),
    ("%C0%AF", "%C0%AF"),
    ("%00", "\0"),
    ("a%0Ab", "a\nb"),
    ("%7F", "\u{7f}"),
    ("%C2%85", "\u{85}"),
];

async fn assert_bad(setup: &RefusalSetup, path: &str, name: &str, raw: &str, given: &str) {
    for response in setup.raw_get(&format!("{path}?{name}={raw}")).await {
        assert_names(&response, "MISSING_PARAM", name, given);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_numbers_are_refused_never_clamped() {
    let setup = RefusalSetup::start().await;
    for (raw, given) in BAD_NUMBERS {
        assert_bad(&setup, "/genes", "limit", raw, given).await;
        assert_bad(&setup, "/genes", "offset", raw, given).await;
    }
    for raw in ["0", "51", "00", "276"] {
        assert_bad(&setup, "/genes", "limit", raw, raw).await;
    }
    // A parameter without an equals sign is an empty one.
    for response in setup.raw_get("/genes?limit&offset=1").await {
        assert_names(&response, "MISSING_PARAM", "limit", "");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn values_that_are_not_listed_are_refused() {
    let setup = RefusalSetup::start().await;
    for (raw, given) in BAD_CHOICES {
        assert_bad(&setup, "/genes", "fidelity", raw, given).await;
        assert_bad(&setup, "/genes", "sort", raw, given).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_domains_are_refused_by_the_search_and_the_insights() {
    let setup = RefusalSetup::start().await;
    let long = "a".repeat(256);
    let astral = "\u{1F9EC}".repeat(256);
    let escaped = "%F0%9F%A7%AC".repeat(256);
    for path in ["/genes", "/arena/insights"] {
        for (raw, given) in BAD_DOMAINS {
            assert_bad(&setup, path, "domain", raw, given).await;
        }
        assert_bad(&setup, path, "domain", &long, &long).await;
        assert_bad(&setup, path, "domain", &escaped, &astral).await;
    }
    assert_bad(&setup, "/arena/insights", "domain", "", "").await;
    for query in ["", "?", "?Domain=search", "?fidelity=Native"] {
        for response in setup.raw_get(&format!("/arena/insights{query}")).await {
            assert_refusal(&response, 400, "MISSING_PARAM");
            let error = response.json()["error"].to_string();
            assert!(error.starts_with("\"domain is required"), "{error}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_parameter_given_twice_is_refused_under_escaped_names_too() {
    let setup = RefusalSetup::start().await;
    for (path, name, query) in [
        ("/genes", "limit", "limit=5&limit=5"),
        ("/genes", "limit", "limit=5&li%6Dit=6"),
        ("/genes", "limit", "limit&x=1&limit"),
        ("/genes", "offset", "offset=0&%6F%66fset=0"),
        ("/genes", "sort", "sort=fitness&sort=fitness"),
        ("/genes", "fidelity", "fidelity=Native&fidelity=Hybrid"),
        ("/genes", "domain", "domain=&domain=search"),
        ("/genes", "domain", "%64omain=search&domain=search"),
        ("/arena/insights", "domain", "domain=search&domain=search"),
        ("/arena/insights", "domain", "domain=search&dom%61in="),
    ] {
        for response in setup.raw_get(&format!("{path}?{query}")).await {
            assert_refusal(&response, 400, "MISSING_PARAM");
            let error = response.json()["error"].as_str().unwrap().to_owned();
            assert!(error.starts_with(&format!("{name} must be given once")), "{query}: {error}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ids_that_are_no_hyphenated_uuid_are_refused() {
    let setup = RefusalSetup::start().await;
    let bare = GENE.replace('-', "");
    for (raw, given) in [
        (format!("{{{GENE}}}"), format!("{{{GENE}}}")),
        (format!("%7B{GENE}%7D"), format!("{{{GENE}}}")),
        (format!("urn:uuid:{GENE}"), format!("urn:uuid:{GENE}")),
        (bare.clone(), bare),
        (format!("{GENE}0"), format!("{GENE}0")),
        (GENE[..35].to_owned(), GENE[..35].to_owned()),
        (format!("{GENE}%00"), format!("{GENE}\0")),
        (format!("%20{GENE}"), format!(" {GENE}")),
        (format!("{GENE}+"), format!("{GENE}+")),
        (GENE.replace('-', "_"), GENE.replace('-', "_")),
        (GENE.replacen('d', "g", 1), GENE.replacen('d', "g", 1)),
        (GENE.replacen('3', "%D9%A3", 1), GENE.replacen('3', "٣", 1)),
        ("1".into(), "1".into()),
        ("..".into(), "..".into()),
        ("null".into(), "null".into()),
        ("%zz".into(), "%zz".into()),
        ("%".into(), "%".into()),
        ("%ff".into(), "%ff".into()),
        ("%00".into(), "\0".into()),
        (GENE.replace('-', "%252D"), GENE.replace('-', "%2D")),
        ("a%2Fb".into(), "a/b".into()),
        ("'%20or%201=1--".into(), "' or 1=1--".into()),
        ("x".repeat(70), "x".repeat(70)),
    ] {
        for response in setup.raw_get(&format!("/genes/{raw}/phenotype?limit=0")).await {
            assert_names(&response, "INVALID_ID", "id", &given);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn unusual_but_valid_parameters_are_served() {
    let setup = RefusalSetup::start().await;
    let upper = GENE.to_uppercase();
    let escaped = GENE.replace('-', "%2D");
    let longest = "%F0%9F%A7%AC".repeat(255);
    for (target, status) in [
        ("/genes?utm_source=a&utm_source=b&%zz=%ff&=&&", 200),
        ("/genes?LIMIT=999&Sort=name&filter[domain]=x", 200),
        ("/genes?", 200),
        ("/genes?domain=", 200),
        ("/genes?domain", 200),
        ("/genes?limit=050&offset=00", 200),
        ("/genes?limit=%35&so%72t=down%6Coads", 200),
        ("/genes?offset=2147483647", 200),
        ("/genes?domain=%25&fidelity=Native", 200),
        ("/genes?domain=a=b", 200),
        (&format!("/genes?domain={}", "a".repeat(255)), 200),
        (&format!("/genes?domain={longest}"), 200),
        (&format!("/genes/{upper}/phenotype"), 200),
        (&format!("/genes/{escaped}/phenotype"), 200),
        (&format!("/genes/{GENE}/phenotype?limit=abc&%zz=%ff&id=x"), 200),
        ("/arena/insights?domain=s%65arch&limit=0&x=%ff", 200),
        ("/arena/insights?domain=%25", 404),
        ("/arena/insights?domain=s_arch", 404),
        ("/arena/insights?domain=SEARCH", 404),
        ("/arena/insights?domain=search+", 404),
        (&format!("/arena/insights?domain={}", "a".repeat(255)), 404),
        (&format!("/arena/insights?domain={longest}"), 404),
    ] {
        for response in setup.raw_get(target).await {
            assert_eq!(response.status, status, "{target}: {response:?}");
            if status == 404 {
                assert_refusal(&response, 404, "NOT_FOUND");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn raw_bytes_beyond_ascii_are_read_as_utf8_or_refused() {
    let setup = RefusalSetup::start().await;
    for replica in &setup.replicas {
        let address = crate::support::raw::address(&replica.base);
        let ask = async |domain: &[u8]| {
            let tail = format!(
                " HTTP/1.1\r\nHost: t\r\nConnection: close\r\nX-API-Key: {}\r\n\r\n",
                setup.key
            );
            let request = [b"GET /v1/genes?domain=", domain, tail.as_bytes()].concat();
            crate::support::raw::exchange(&address, &request).await
        };
        assert_eq!(ask("ключ".as_bytes()).await.status, 200);
        let bad = ask(b"\xff\xfe").await;
        assert_eq!(bad.status, 400, "{bad:?}");
        assert!(!ask(b"a\0b").await.status.is_success());
    }
}
