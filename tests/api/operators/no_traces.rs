//! A build without the feature `otlp` refuses an OTLP endpoint.

use crate::support::process::Launch;
use crate::support::wait::until;
use std::time::Duration;

#[tokio::test(flavor = "multi_thread")]
async fn an_otlp_endpoint_without_the_feature_stops_the_start() {
    let check = Launch::new("gene-registry", env!("CARGO_BIN_EXE_gene-registry"))
        .args(["config", "check"])
        .env("GENE_REGISTRY__TELEMETRY__OTLP_ENDPOINT", "http://127.0.0.1:4318")
        .env_remove("GENE_REGISTRY_CONFIG")
        .start();
    let status =
        until(Duration::from_secs(30), "the process ends", || async { check.exit_status() }).await;
    assert_eq!(status.code(), Some(1), "{}", check.report());
    let said = check.stderr();
    assert!(said.contains("telemetry.otlp_endpoint") && said.contains("otlp`"), "{said}");
}
