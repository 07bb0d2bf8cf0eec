//! Publishes the arena numbers of the domains that this replica read lately. Nothing is read for the
//! metrics themselves.
//!
//! Requests name the domains, so their number is bounded. Domains that are no longer requested are
//! dropped: their numbers would look constant.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use serde::Deserialize;

use super::exposition::Exposition;
use crate::sync::lock;

/// Maximum number of domains.
const MAX_DOMAINS: usize = 100;

/// Maximum age of the numbers of a domain.
const MAX_AGE: Duration = Duration::from_secs(300);

/// The numbers of an arena response; the fields have the names in its JSON.
#[derive(Debug, Clone, Copy, Deserialize)]
struct ArenaNumbers {
    gene_count: f64,
    shannon_diversity: f64,
    turnover_rate: f64,
    avg_fitness: f64,
    total_arena_evaluations: f64,
}

#[derive(Debug, Clone, Copy)]
struct DomainSample {
    numbers: ArenaNumbers,
    read_at: Instant,
    read_at_seconds: f64,
}

/// The published domains.
#[derive(Debug, Default)]
pub(super) struct DomainMetrics(Mutex<HashMap<Box<str>, DomainSample>>);

impl DomainMetrics {
    /// Records an arena response that was read `age` ago, at `read_at_seconds` since 1970.
    pub(super) fn observe(
        &self,
        domain: &str,
        body: &[u8],
        age: Duration,
        read_at_seconds: f64,
        now: Instant,
    ) {
        let Some(read_at) = now.checked_sub(age).filter(|_| age < MAX_AGE) else { return };
        let Ok(numbers) = serde_json::from_slice(body) else { return };
        let mut domains = lock(&self.0);
        let is_newer = domains.get(domain).is_none_or(|old| old.read_at_seconds < read_at_seconds);
        if !is_newer {
            return;
        }
        if domains.len() >= MAX_DOMAINS && !domains.contains_key(domain) {
            let oldest = domains.iter().min_by_key(|(_, one)| one.read_at);
            if let Some(oldest) = oldest.map(|(name, _)| name.clone()) {
                domains.remove(&oldest);
            }
        }
        domains.insert(domain.into(), DomainSample { numbers, read_at, read_at_seconds });
    }

    /// Appends the samples of the domains that were read lately.
    pub(super) fn write(&self, out: &mut Exposition, now: Instant) {
        let mut domains = lock(&self.0);
        domains.retain(|_, one| now.saturating_duration_since(one.read_at) < MAX_AGE);
        for (domain, DomainSample { numbers, read_at_seconds, .. }) in &*domains {
            for (name, value) in [
                ("gene_registry_domain_genes", numbers.gene_count),
                ("gene_registry_domain_shannon_diversity", numbers.shannon_diversity),
                ("gene_registry_domain_turnover_ratio", numbers.turnover_rate),
                ("gene_registry_domain_mean_fitness", numbers.avg_fitness),
                ("gene_registry_domain_evaluations", numbers.total_arena_evaluations),
                ("gene_registry_domain_read_timestamp_seconds", *read_at_seconds),
            ] {
                out.sample(name, &[("domain", domain)], value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BODY: &[u8] = br#"{"domain":"search","gene_count":13,"shannon_diversity":2.5,
        "turnover_rate":0.4,"top_genes":[],"avg_fitness":0.8,"total_arena_evaluations":168}"#;

    fn text(metrics: &DomainMetrics, now: Instant) -> String {
        let mut out = Exposition::default();
        metrics.write(&mut out, now);
        out.render_after(String::new())
    }

    #[test]
    fn a_domain_is_published_with_its_newest_numbers_until_they_are_old() {
        let (metrics, now) = (DomainMetrics::default(), Instant::now() + MAX_AGE * 2);
        let minute = Duration::from_secs(60);
        metrics.observe("search", BODY, minute, 1000.0, now);
        let older = br#"{"gene_count":1,"shannon_diversity":0,"turnover_rate":0,
            "avg_fitness":0,"total_arena_evaluations":1}"#;
        metrics.observe("search", older, 2 * minute, 940.0, now);
        let shown = text(&metrics, now);
        for line in [
            r#"gene_registry_domain_genes{domain="search"} 13"#,
            r#"gene_registry_domain_shannon_diversity{domain="search"} 2.5"#,
            r#"gene_registry_domain_turnover_ratio{domain="search"} 0.4"#,
            r#"gene_registry_domain_mean_fitness{domain="search"} 0.8"#,
            r#"gene_registry_domain_evaluations{domain="search"} 168"#,
            r#"gene_registry_domain_read_timestamp_seconds{domain="search"} 1000"#,
        ] {
            assert!(shown.lines().any(|found| found == line), "{line}: {shown}");
        }
        assert_eq!(text(&metrics, now + MAX_AGE - minute), "");
        metrics.observe("late", BODY, MAX_AGE, 1000.0, now);
        assert_eq!(text(&metrics, now), "");
    }

    #[test]
    fn only_the_newest_domains_are_kept() {
        let (metrics, now) = (DomainMetrics::default(), Instant::now() + MAX_AGE);
        for number in 0..2 * MAX_DOMAINS {
            let age = Duration::from_millis((2 * MAX_DOMAINS - number) as u64);
            metrics.observe(&format!("domain.{number}"), BODY, age, number as f64, now);
        }
        let shown = text(&metrics, now);
        let count = shown.lines().filter(|line| line.starts_with("gene_registry_domain_genes"));
        assert_eq!(count.count(), MAX_DOMAINS);
        assert!(shown.contains("\"domain.199\"") && !shown.contains("\"domain.99\""));
    }
}
