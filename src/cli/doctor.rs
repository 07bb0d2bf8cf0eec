//! `gene-registry doctor` checks what a replica needs, as it is configured.

use std::process::ExitCode;

use clap::Args;

use super::command::{CommandResult, block_on};
use super::config_file::ConfigFile;
use super::output::{print, print_json, sanitize_lines};
use crate::app;
use crate::doctor::{self, Finding, Severity};

#[derive(Debug, Args)]
pub(super) struct Doctor {
    #[command(flatten)]
    config: ConfigFile,
    /// Print the findings as JSON
    #[arg(long)]
    json: bool,
}

impl Doctor {
    pub(super) fn run(self) -> CommandResult {
        let loaded = app::load_config(self.config.path());
        block_on(async move {
            let findings = match loaded {
                Ok(loaded) => doctor::check(&loaded.config).await,
                Err(invalid) => [doctor::errors(&invalid), doctor::ignored_variables()].concat(),
            };
            if self.json {
                print_json(&findings)?;
            } else {
                print(&sanitize_lines(&text(&findings)))?;
            }
            let has_serious = findings.iter().any(Finding::is_serious);
            Ok(if has_serious { ExitCode::FAILURE } else { ExitCode::SUCCESS })
        })
    }
}

/// One line for each finding, one for all checks that were left out, and one for those that found
/// nothing.
fn text(findings: &[Finding]) -> String {
    let line = |finding: &Finding| finding.to_string().replace('\n', " ") + "\n";
    let of = |severity| findings.iter().filter(move |finding| finding.severity == severity);
    let found = of(Severity::Serious).chain(of(Severity::Warning));
    let mut text: String = found.map(line).collect();
    for (name, severity) in [("not checked", Severity::NotChecked), ("ok", Severity::Ok)] {
        let checks: Vec<_> = of(severity).map(|finding| finding.check).collect();
        if !checks.is_empty() {
            text.push_str(&format!("{name}: {}\n", checks.join(", ")));
        }
    }
    text
}
