//! What can be said of the configuration without connecting to anything. `config check` prints the
//! same.

use std::time::Duration;

use super::finding::Finding;
use crate::config::{Config, InvalidConfig, unknown_variables};
use crate::registry::Timestamp;
use crate::server::ServerTls;

pub(super) const CHECK: &str = "configuration";

/// A certificate that expires sooner is a finding.
const CERTIFICATE_DAYS: u64 = 14;

/// The errors of a configuration that cannot be used.
pub fn errors(invalid: &InvalidConfig) -> Vec<Finding> {
    let error = |text: &str| {
        let remedy = "Correct the key: config/default.toml documents all of them.";
        Finding::serious(CHECK, text.to_owned(), remedy)
    };
    invalid.texts().map(error).collect()
}

/// Environment variables without effect.
pub fn ignored_variables() -> Vec<Finding> {
    let finding = |name: String| {
        let message = format!("the environment variable {name} is ignored");
        let remedy = "Variables of the service begin with GENE_REGISTRY__ and have two underscores \
                      between section and key: GENE_REGISTRY__SERVER__BIND.";
        Finding::warning(CHECK, message, remedy)
    };
    unknown_variables().into_iter().map(finding).collect()
}

/// What may be wrong with a configuration that can be used.
pub fn check(config: &Config) -> Vec<Finding> {
    let mut findings = ignored_variables();
    findings.extend(certificate(config));
    if !config.redis.is_used() && config.rate_limit.replicas > 1 {
        let message = format!(
            "{} replicas have no Redis in common, so each caches and counts requests on its own",
            config.rate_limit.replicas
        );
        let remedy = "Set redis.url, or REDIS_URL.";
        findings.push(Finding::warning(CHECK, message, remedy));
    }
    findings
}

fn certificate(config: &Config) -> Option<Finding> {
    let (cert, key) = config.server.tls.files()?;
    let tls = ServerTls::new(cert, key, Duration::ZERO).ok()?;
    let now = u64::try_from(Timestamp::now().as_second()).unwrap_or(0);
    let days = tls.expires_at().saturating_sub(now) / 86_400;
    let remedy = "Replace the files of [server.tls]; they are reloaded without a restart.";
    match tls.expires_at() {
        expired if expired <= now => {
            let message = format!("the certificate in {} has expired", cert.display());
            Some(Finding::serious(CHECK, message, remedy))
        }
        _ if days < CERTIFICATE_DAYS => {
            let message = format!("the certificate in {} expires in {days} days", cert.display());
            Some(Finding::warning(CHECK, message, remedy))
        }
        _ => None,
    }
}
