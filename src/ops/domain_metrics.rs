//! The numbers of domains that this replica last read, for a dashboard: nothing is read for them.
//!
//! Domains come from callers, so there is room for a few only, and what nobody asks for any more
//! is not shown: a number that stands still would look like a domain that stands still.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde::Deserialize;

use super::exposition::Exposition;

/// Domains shown at once.
const MOST: usize = 100;

/// How long ago a domain shown was read, at most.
const SHOWN: Duration = Duration::from_secs(300);

/// The numbers of an arena answer, by the names they have there.
#[derive(Debug, Clone, Copy, Deserialize)]
struct Numbers {
    gene_count: f64,
    shannon_diversity: f64,
    turnover_rate: f64,
    avg_fitness: f64,
    total_arena_evaluations: f64,
}

#[derive(Debug, Clone, Copy)]
struct Shown {
    numbers: Numbers,
    read_at: Instant,
    read_at_seconds: f64,
}

/// The domains shown.
#[derive(Debug, Default)]
pub(super) struct DomainMetrics(Mutex<HashMap<Box<str>, Shown>>);

impl DomainMetrics {
    /// Takes in an arena answer that was read `age` ago, at `read_at_seconds` since 1970.
    pub(super) fn observe(
        &self,
        domain: &str,
        answer: &[u8],
        age: Duration,
        read_at_seconds: f64,
        now: Instant,
    ) {
        let Some(read_at) = now.checked_sub(age).filter(|_| age < SHOWN) else { return };
        let Ok(numbers) = serde_json::from_slice(answer) else { return };
        let mut shown = self.lock();
        let is_newer = shown.get(domain).is_none_or(|old| old.read_at_seconds < read_at_seconds);
        if !is_newer {
            return;
        }
        if shown.len() >= MOST && !shown.contains_key(domain) {
            let oldest = shown.iter().min_by_key(|(_, one)| one.read_at);
            if let Some(oldest) = oldest.map(|(name, _)| name.clone()) {
                shown.remove(&oldest);
            }
        }
        shown.insert(domain.into(), Shown { numbers, read_at, read_at_seconds });
    }

    /// Adds those that were read lately.
    pub(super) fn write(&self, out: &mut Exposition, now: Instant) {
        let mut shown = self.lock();
        shown.retain(|_, one| now.saturating_duration_since(one.read_at) < SHOWN);
        type Value = fn(&Shown) -> f64;
        let all: [(&'static str, Value); 6] = [
            ("gene_registry_domain_genes", |one| one.numbers.gene_count),
            ("gene_registry_domain_shannon_diversity", |one| one.numbers.shannon_diversity),
            ("gene_registry_domain_turnover_ratio", |one| one.numbers.turnover_rate),
            ("gene_registry_domain_mean_fitness", |one| one.numbers.avg_fitness),
            ("gene_registry_domain_evaluations", |one| one.numbers.total_arena_evaluations),
            ("gene_registry_domain_read_timestamp_seconds", |one| one.read_at_seconds),
        ];
        for (name, value) in all {
            for (domain, one) in &*shown {
                out.sample(name, &[("domain", domain)], value(one));
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Box<str>, Shown>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANSWER: &[u8] = br#"{"domain":"search","gene_count":13,"shannon_diversity":2.5,
        "turnover_rate":0.4,"top_genes":[],"avg_fitness":0.8,"total_arena_evaluations":168}"#;

    fn text(metrics: &DomainMetrics, now: Instant) -> String {
        let mut out = Exposition::default();
        metrics.write(&mut out, now);
        out.into_text()
    }

    #[test]
    fn a_domain_is_shown_with_its_newest_numbers_until_they_are_old() {
        let (metrics, now) = (DomainMetrics::default(), Instant::now() + SHOWN * 2);
        let minute = Duration::from_secs(60);
        metrics.observe("search", ANSWER, minute, 1000.0, now);
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
        assert_eq!(text(&metrics, now + SHOWN - minute), "");
        metrics.observe("late", ANSWER, SHOWN, 1000.0, now);
        assert_eq!(text(&metrics, now), "");
    }

    #[test]
    fn there_is_room_for_the_newest_only() {
        let (metrics, now) = (DomainMetrics::default(), Instant::now() + SHOWN);
        for number in 0..2 * MOST {
            let age = Duration::from_millis((2 * MOST - number) as u64);
            metrics.observe(&format!("domain.{number}"), ANSWER, age, number as f64, now);
        }
        let shown = text(&metrics, now);
        let count = shown.lines().filter(|line| line.starts_with("gene_registry_domain_genes"));
        assert_eq!(count.count(), MOST);
        assert!(shown.contains("\"domain.199\"") && !shown.contains("\"domain.99\""));
    }
}
