//! Rows that violate the contract of the views, in a sample of each view.

use tokio_postgres::Error;

use super::finding::Finding;
use super::session::Session;
use super::values;
use crate::upstream::postgres::{COUNTS, WITHIN_CONTRACT};

pub(super) const CHECK: &str = values::CHECK;

/// Maximum number of rows of each view.
const SAMPLE: u32 = 100_000;

/// What identifies a key without telling more of it than a log does.
pub(super) const PREFIX: &str = "left(prefix::text, 11)";

/// What the rows of a view must not be.
struct Violation {
    view: &'static str,
    /// An expression that identifies a row, for the message.
    name: &'static str,
    /// True for the rows.
    condition: String,
    /// What they are, and what the service does with them.
    text: &'static str,
    remedy: &'static str,
}

impl Violation {
    /// The view whose rows it is about, and what identifies a row.
    const fn of(
        (view, name): (&'static str, &'static str),
        condition: String,
        text: &'static str,
        remedy: &'static str,
    ) -> Self {
        Self { view, name, condition, text, remedy }
    }
}

fn of_genes() -> [Violation; 5] {
    let gene = |condition: &str, text, remedy| {
        Violation::of(("gene", "id"), condition.into(), text, remedy)
    };
    [
        gene("id IS NULL", "have no id and are never shown", "Give each gene an id."),
        gene(
            &format!("({WITHIN_CONTRACT}) IS NOT TRUE"),
            "have an unknown fidelity, or a score that is negative, infinite or NaN, and are left \
             out of searches and insights",
            "Correct them: fidelity is Wrapped, Hybrid or Native, fitness_score a finite number of \
             0 or more, reputation_score a finite number.",
        ),
        gene(
            "required_fidelity::text NOT IN ('', 'Wrapped', 'Hybrid', 'Native')",
            "have an unknown required_fidelity, so their phenotype is 502",
            "Correct it, or set it to NULL.",
        ),
        gene(
            "NOT (char_length(domain::text) BETWEEN 1 AND 255
                AND domain::text COLLATE \"C\" !~ '[\\x01-\\x1f\\x7f]')",
            "have a domain that no request can name",
            "A domain has 1 to 255 characters and no control characters.",
        ),
        gene(
            "sharing_rows > 1 AND id IS NOT NULL",
            "share their id with another one, and appear twice in searches",
            "Make id unique.",
        ),
    ]
}

fn of_others() -> [Violation; 4] {
    let key = ("api_key", PREFIX);
    [
        Violation::of(
            ("arena_evaluation", "gene_id"),
            format!("gene_id IS NULL OR ({COUNTS}) IS NOT TRUE"),
            "have no gene, or a fitness_value or a time that is out of range, and are ignored",
            "Correct them: fitness_value is a finite number of 0 or more, evaluated_at from the \
             year 1 to 9999-12-29.",
        ),
        Violation::of(
            key,
            "octet_length(key_hash) IS DISTINCT FROM 32".to_owned(),
            "have a key_hash that is not 32 bytes long, so no request can use them",
            "Store the SHA-256 of each key as 32 bytes (bytea), not as text.",
        ),
        Violation::of(
            key,
            "sharing_rows > 1".to_owned(),
            "share their key_hash with another one, which may be used instead",
            "Make key_hash unique.",
        ),
        Violation::of(
            ("change", "scope"),
            "scope IS NULL OR changed_in IS NULL OR changed_at IS NULL".to_owned(),
            "have an empty column, and may be missed",
            "Declare all columns of the change log NOT NULL.",
        ),
    ]
}

/// `has_log`: whether there is a change log.
pub(super) async fn check(session: &mut Session, has_log: bool) -> Result<Vec<Finding>, Error> {
    let violations: Vec<_> = of_genes().into_iter().chain(of_others()).collect();
    let mut findings = Vec::new();
    for (view, key) in
        [("gene", "id"), ("arena_evaluation", ""), ("api_key", "key_hash"), ("change", "")]
    {
        if view == "change" && !has_log {
            continue;
        }
        let of_view: Vec<_> = violations.iter().filter(|one| one.view == view).collect();
        let unreadable = values::unreadable(session, view, SAMPLE).await?;
        let result = count(session, view, key, &of_view).await;
        match result {
            Ok(counted) => findings.extend(counted),
            Err(error) if unreadable.is_empty() => {
                findings.push(values::failed(CHECK, view, &error))
            }
            // The other violations may not need the columns that cannot be read.
            Err(_) => {
                for violation in of_view {
                    findings
                        .extend(count(session, view, key, &[violation]).await.unwrap_or_default());
                }
            }
        }
        findings.extend(unreadable);
    }
    Ok(findings)
}

/// The rows of each violation.
async fn count(
    session: &mut Session,
    view: &str,
    key: &str,
    violations: &[&Violation],
) -> Result<Vec<Finding>, Error> {
    let row = session.row(&statement(view, key, violations)).await?;
    let mut findings = Vec::new();
    for (index, Violation { text, remedy, .. }) in violations.iter().enumerate() {
        let count: i64 = row.try_get(2 * index)?;
        let example: Option<String> = row.try_get(2 * index + 1)?;
        if count > 0 {
            let example = example.map_or(String::new(), |it| format!(" (such as {it})"));
            let message = format!("{count} rows of registry_read.{view}{example} {text}");
            findings.push(Finding::warning(CHECK, message, *remedy));
        }
    }
    Ok(findings)
}

/// Counts the rows of each violation, and names one. `key`: the unique column, if there is one.
fn statement(view: &str, key: &str, violations: &[&Violation]) -> String {
    let counted = violations.iter().map(|Violation { name, condition, .. }| {
        format!("count(*) FILTER (WHERE {condition}), min({name}::text) FILTER (WHERE {condition})")
    });
    let counted = counted.collect::<Vec<_>>().join(", ");
    let sharing = if key.is_empty() { "1" } else { &format!("count(*) OVER (PARTITION BY {key})") };
    format!(
        "SELECT {counted} FROM (
            SELECT *, {sharing} AS sharing_rows FROM (
                SELECT * FROM registry_read.{view} LIMIT {SAMPLE}
            ) sample
        ) counted"
    )
}
