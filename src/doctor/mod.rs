//! Checks what a replica needs, as it is configured: `gene-registry doctor`. Each check is a module
//! that returns its findings with their remedies.

mod change_log;
mod clocks;
mod configuration;
mod database;
mod finding;
mod indexes;
mod key_databases;
mod keys;
mod plan;
mod redis;
mod resources;
mod role;
mod rows;
mod session;
mod speed;
mod standbys;
mod statements;
mod suggested_index;
mod text;
mod triggers;
mod values;
mod views;

use std::error::Error;

use crate::config::Config;
use session::Session;

pub use configuration::{check as check_configuration, errors, ignored_variables};
pub use finding::{Finding, Severity};

/// The findings so far, and the names of the checks.
#[derive(Default)]
struct Report {
    checks: Vec<&'static str>,
    findings: Vec<Finding>,
}

impl Report {
    fn add(&mut self, check: &'static str, found: Vec<Finding>) {
        if !self.checks.contains(&check) {
            self.checks.push(check);
        }
        self.findings.extend(found);
    }

    fn add_result<E: Error + 'static>(
        &mut self,
        check: &'static str,
        found: Result<Vec<Finding>, E>,
    ) {
        self.add(check, found.unwrap_or_else(|error| vec![Finding::failed(check, &error)]));
    }

    fn leave_out(&mut self, checks: &[&'static str], reason: &str) {
        self.findings.extend(checks.iter().map(|&check| Finding::not_checked(check, reason)));
    }

    /// All findings, the most serious ones first, then the checks that found nothing.
    fn finish(mut self) -> Vec<Finding> {
        self.findings.sort_by_key(|finding| finding.severity);
        let found: Vec<_> = self.findings.iter().map(|finding| finding.check).collect();
        self.checks.retain(|check| !found.contains(check));
        self.findings.extend(self.checks.into_iter().map(Finding::ok));
        self.findings
    }
}

/// Runs all checks. Those that read the views need views without serious findings.
pub async fn check(config: &Config) -> Vec<Finding> {
    let mut report = Report::default();
    report.add(configuration::CHECK, configuration::check(config));
    match Session::open(&config.upstream).await {
        Ok(mut session) => check_database(&mut session, config, &mut report).await,
        Err(error) => {
            report.add(database::CHECK, vec![database::unreachable(&error)]);
            let left_out = [&OF_VIEWS[..], &OF_DATABASE].concat();
            report.leave_out(&left_out, "there is no connection to the database");
        }
    }
    report.add(key_databases::CHECK, key_databases::check(config).await);
    report.add(redis::CHECK, redis::check(&config.redis, true).await);
    report.add(resources::CHECK, resources::files(config));
    report.finish()
}

/// The checks that read the views.
const OF_VIEWS: [&str; 4] = [change_log::CHECK, rows::CHECK, indexes::CHECK, keys::CHECK];

/// The others that need the database.
const OF_DATABASE: [&str; 5] =
    [views::CHECK, role::CHECK, text::CHECK, standbys::CHECK, clocks::CHECK];

async fn check_database(session: &mut Session, config: &Config, report: &mut Report) {
    report.add_result(database::CHECK, database::check(session).await);
    let views = views::check(session).await;
    let is_readable = views.as_ref().is_ok_and(|found| !found.iter().any(Finding::is_serious));
    if is_readable {
        check_views(session, config, report).await;
    } else {
        report.leave_out(&OF_VIEWS, "it reads views that have serious findings");
    }
    report.add_result(views::CHECK, views);
    report.add_result(role::CHECK, role::check(session, config.upstream.deadline_ms).await);
    report.add_result(text::CHECK, text::check(session).await);
    report.add_result(standbys::CHECK, standbys::check(&config.upstream).await);
    report.add_result(clocks::CHECK, clocks::check(session).await);
    report.add_result(resources::CHECK, resources::connections(session, config).await);
}

/// What the views show.
async fn check_views(session: &mut Session, config: &Config, report: &mut Report) {
    match change_log::exists(session).await {
        Ok(has_log) => {
            report.add_result(change_log::CHECK, change_log::check(session, has_log).await);
            report.add_result(rows::CHECK, rows::check(session, has_log).await);
            let indexes = indexes::check(session, &config.upstream, has_log).await;
            report.add_result(indexes::CHECK, indexes);
        }
        Err(error) => {
            report.add(change_log::CHECK, vec![Finding::failed(change_log::CHECK, &error)]);
            report.leave_out(&[rows::CHECK, indexes::CHECK], "the change log cannot be found");
        }
    }
    report.add_result(keys::CHECK, keys::check(session, &config.keys).await);
}

/// Runs the checks that are cheap, for the log of a replica that starts. What it logs
/// anyway, such as an unavailable database, is left out.
pub async fn check_at_start(config: &Config) -> Vec<Finding> {
    let mut findings = ignored_variables();
    if let Ok(mut session) = Session::open(&config.upstream).await {
        let mut report = Report::default();
        let views = views::check(&mut session).await;
        if views.as_ref().is_ok_and(|found| !found.iter().any(Finding::is_serious)) {
            report.add_result(keys::CHECK, keys::check(&mut session, &config.keys).await);
        }
        report.add_result(views::CHECK, views);
        let deadline_ms = config.upstream.deadline_ms;
        report.add_result(role::CHECK, role::check(&mut session, deadline_ms).await);
        report.add_result(text::CHECK, text::check(&mut session).await);
        findings.extend(report.findings);
    }
    findings.extend(redis::check(&config.redis, false).await);
    findings
}
