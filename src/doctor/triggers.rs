//! The triggers that write the change log of this project, `registry.change`, on the tables behind
//! the views.

use tokio_postgres::{Error, Row};

use super::finding::{Finding, Severity};
use super::plan::ScannedTable;
use super::session::Session;
use super::suggested_index::table_of;

pub(super) const CHECK: &str = "change log";

pub(super) const LOG_KEYS: &str = "Insert key:<hex of key_hash> in the transaction that creates, \
                                   changes, revokes or deletes a key: see the section Change log of \
                                   docs/upstream.md.";

const LOG_GENES: &str = "Insert gene:<uuid> and domain:<name> in the transaction that changes a gene: \
                         see the section Change log of docs/upstream.md.";

/// The tables and views that a view reads, by its rules, and the view itself.
pub(super) fn sources(view: &str) -> String {
    format!(
        "WITH RECURSIVE source (oid) AS (
            SELECT 'registry_read.{view}'::regclass::oid
            UNION
            SELECT d.refobjid FROM source JOIN pg_rewrite r ON r.ev_class = source.oid
            JOIN pg_depend d ON d.classid = 'pg_rewrite'::regclass AND d.objid = r.oid
                AND d.refclassid = 'pg_class'::regclass
        )"
    )
}

/// What the triggers of a view log.
#[derive(Debug, Clone, Copy)]
struct Logged {
    view: &'static str,
    /// The column that identifies a row: it is in the table that must have the triggers.
    key: &'static str,
    /// Matches the text of the trigger functions.
    pattern: &'static str,
    /// Creates the triggers.
    call: &'static str,
    severity: Severity,
    text: &'static str,
    consequence: &'static str,
    /// The remedy if no trigger can do it.
    without_triggers: &'static str,
}

const LOGGED: [Logged; 2] = [
    Logged {
        view: "api_key",
        key: "key_hash",
        pattern: r"registry\.(log_keys|change)\M",
        call: "registry.watch_keys",
        severity: Severity::Serious,
        text: "API keys",
        consequence: "a revoked key would stay valid for ten minutes or more",
        without_triggers: LOG_KEYS,
    },
    Logged {
        view: "gene",
        key: "id",
        pattern: r"registry\.(log_genes|change)\M",
        call: "registry.watch_genes",
        severity: Severity::Warning,
        text: "genes",
        consequence: "changes appear as cached responses age",
        without_triggers: LOG_GENES,
    },
];

/// A table, the statements that no enabled trigger on it logs, and its disabled triggers.
struct LoggedTable {
    table: ScannedTable,
    unlogged: Vec<String>,
    disabled: Vec<String>,
}

impl LoggedTable {
    fn read(row: &Row) -> Result<Self, Error> {
        let table = ScannedTable::new(row.try_get("schema")?, row.try_get("name")?);
        Ok(Self { table, unlogged: row.try_get("unlogged")?, disabled: row.try_get("disabled")? })
    }

    fn lacks_updates(&self) -> bool {
        self.unlogged.iter().any(|event| event == "UPDATE")
    }
}

/// Whether the view of the change log shows the table that the functions of this project fill.
pub(super) async fn write_log(session: &mut Session) -> Result<bool, Error> {
    let sources = sources("change");
    let sql = format!(
        "{sources} SELECT EXISTS (
            SELECT FROM source JOIN pg_class c ON c.oid = source.oid
            JOIN pg_namespace n ON n.oid = c.relnamespace
            WHERE n.nspname = 'registry' AND c.relname = 'change'
        ) AS is_own"
    );
    session.row(&sql).await?.try_get("is_own")
}

/// Changes of keys or genes that no trigger logs: of the table that identifies them, and of the other
/// tables from which the view takes columns.
pub(super) async fn check(session: &mut Session) -> Result<Vec<Finding>, Error> {
    let mut findings = Vec::new();
    for logged in LOGGED {
        let tables = session.rows(&tables(&logged)).await?;
        let tables: Vec<_> = tables.iter().map(LoggedTable::read).collect::<Result<_, _>>()?;
        let main = table_of(session, logged.view, logged.key).await?;
        // Where it is not known which table has the key, any one may have the triggers. A materialized
        // view has none.
        let main = main.filter(|main| tables.iter().any(|it| it.table == *main));
        let candidates =
            tables.iter().filter(|it| main.as_ref().is_none_or(|main| it.table == *main));
        let best = candidates.min_by_key(|it| it.unlogged.len());
        if best.is_none_or(|it| !it.unlogged.is_empty()) {
            findings.push(logged.finding(session, best).await?);
        }
        let is_best = |table: &LoggedTable| best.is_some_and(|best| best.table == table.table);
        let others = tables.iter().filter(|it| !is_best(it) && it.lacks_updates());
        for other in others {
            let finding = logged.finding(session, Some(other)).await?;
            findings.push(logged.finding_of_other(finding));
        }
    }
    Ok(findings)
}

/// The tables behind a view. Of the bits of `tgtype`, 4 is INSERT, 8 DELETE and 16 UPDATE.
fn tables(logged: &Logged) -> String {
    let (sources, pattern) = (sources(logged.view), logged.pattern);
    let of_table = format!(
        "pg_trigger t JOIN pg_proc p ON p.oid = t.tgfoid
        WHERE t.tgrelid = c.oid AND NOT t.tgisinternal AND p.prosrc ~ '{pattern}'"
    );
    format!(
        "{sources} SELECT n.nspname::text AS schema, c.relname::text AS name,
            ARRAY(SELECT event FROM (VALUES ('INSERT', 4), ('UPDATE', 16), ('DELETE', 8))
                events (event, flag)
                WHERE NOT EXISTS (
                    SELECT FROM {of_table} AND t.tgtype & flag <> 0 AND t.tgenabled IN ('O', 'A'))
            ) AS unlogged,
            ARRAY(SELECT quote_ident(t.tgname) FROM {of_table}
                AND t.tgenabled NOT IN ('O', 'A') ORDER BY t.tgname) AS disabled
        FROM source JOIN pg_class c ON c.oid = source.oid
        JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE c.relkind IN ('r', 'p', 'f') ORDER BY 1, 2"
    )
}

impl Logged {
    /// A finding on a table that does not identify the rows. If the view shows nothing of it but numbers
    /// that are not logged, it needs no triggers.
    fn finding_of_other(&self, finding: Finding) -> Finding {
        let Finding { message, remedy, .. } = finding;
        let remedy = format!(
            "{remedy} If registry_read.{} takes only scores, ranks and counters from it, it needs no \
             triggers.",
            self.view
        );
        Finding { severity: Severity::Warning, check: CHECK, message, remedy }
    }

    /// `table`: the one that lacks triggers, if there is one.
    async fn finding(
        &self,
        session: &mut Session,
        table: Option<&LoggedTable>,
    ) -> Result<Finding, Error> {
        let Self { view, call, severity, text, consequence, .. } = *self;
        let Some(LoggedTable { table, unlogged, disabled }) = table else {
            let message = format!(
                "no table is known behind registry_read.{view}, so no trigger logs changes of \
                 {text}: {consequence}"
            );
            let remedy = self.without_triggers.to_owned();
            return Ok(Finding { severity, check: CHECK, message, remedy });
        };
        let message = format!(
            "no enabled trigger on {table} logs {} of {text}: {consequence}",
            unlogged.join(", ")
        );
        let has_call = format!(
            "SELECT EXISTS (
                SELECT FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
                WHERE n.nspname || '.' || p.proname = '{call}'
            ) AS has_call"
        );
        let remedy = if !disabled.is_empty() {
            let enable = disabled.iter().map(|name| format!(" ENABLE TRIGGER {name}"));
            format!("ALTER TABLE {table}{};", enable.collect::<Vec<_>>().join(","))
        } else if session.row(&has_call).await?.try_get("has_call")? {
            format!(
                "As the owner of the table, run SELECT {call}('{table}', …): step 4 of \
                 docs/upstream.md#4-triggers-of-the-change-log has the query."
            )
        } else {
            "Create the triggers of the default schema again: they are in \
             src/default_schema/migrations/V3__change_log.sql."
                .to_owned()
        };
        Ok(Finding { severity, check: CHECK, message, remedy })
    }
}
