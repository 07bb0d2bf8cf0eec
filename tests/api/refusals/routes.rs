//! Unknown routes are 404, with any method and with or without a key.

use super::{GENE, RefusalSetup, assert_refusal};

#[tokio::test(flavor = "multi_thread")]
async fn unknown_routes_are_refused_with_404_with_and_without_a_key() {
    let setup = RefusalSetup::start().await;
    let key = [("X-API-Key", setup.key.as_str())];
    let long = format!("/{}", "x".repeat(60_000));
    let of_gene = format!("/v1/genes/{GENE}");
    for target in [
        "/v1",
        "/v1/",
        "/v1/genes/",
        "//v1/genes",
        "/v1//genes",
        "/v1/genes//",
        "/v1/genes//phenotype",
        "/v1/genes/phenotype",
        &of_gene,
        &format!("{of_gene}/"),
        &format!("{of_gene}/phenotype/"),
        &format!("{of_gene}//phenotype"),
        &format!("{of_gene}/phenotypes"),
        &format!("{of_gene}/phenotype/x"),
        "/v1/arena",
        "/v1/arena/insights/?domain=search",
        "/v1/arena//insights?domain=search",
        "/v1/arena/insights.json",
        "/V1/genes",
        "/v1/Genes",
        "/v1/genes%2F",
        "/v1/genes%20",
        "/v1/genes;a=b",
        "/v1/%67enes/%zz",
        "/v2/genes",
        "/genes",
        "/v1/genes/../genes",
        "/docs/none",
        "/docs/../../etc/passwd",
        "/docs/%2e%2e/init.js",
        "/openapi.json/",
        "/v1/docs",
        "/livez",
        "/metrics",
        "/control/v1/keys",
        "/.well-known/x",
        "/%ff",
        "/%00",
        &long,
    ] {
        for replica in &setup.replicas {
            for headers in [&key[..], &[]] {
                for method in ["GET", "POST", "BREW"] {
                    let response = replica.raw(method, target, headers).await;
                    assert_eq!(response.status, 404, "{method} {target}: {response:?}");
                    assert_refusal(&response, 404, "NOT_FOUND");
                }
            }
        }
    }
}
