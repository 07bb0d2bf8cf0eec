//! The indexes that serve the statements of the service, in the columns of the views, and the
//! statements that create them, in the columns of the tables behind the views.

use serde_json::Value;
use tokio_postgres::Error;

use super::plan::{ScannedTable, columns, plan, scans, without_alias};
use super::session::Session;
use crate::upstream::postgres::{COUNTS, FITNESS, WITHIN_CONTRACT, count};

/// The tables behind a view are read as a whole, so that the plan shows their columns and all
/// conditions.
const READ_TABLES: &str = "SET LOCAL enable_indexscan = off; SET LOCAL enable_indexonlyscan = off;
    SET LOCAL enable_bitmapscan = off; SET LOCAL max_parallel_workers_per_gather = 0";

/// An index for one use of a view.
pub(super) struct SuggestedIndex {
    view: &'static str,
    /// What reads it.
    pub(super) purpose: String,
    /// Its expressions; those that are sorted in descending order end in ` DESC`.
    keys: Vec<String>,
    /// What is looked up by the first of them.
    lookup: String,
    /// The number of keys by which the result is sorted, the last ones.
    sorted: usize,
    /// The condition of a partial index.
    condition: String,
    /// Further columns, without which each row is also read in the table.
    included: Vec<&'static str>,
}

impl SuggestedIndex {
    fn new(view: &'static str, purpose: &str, key: &str, operator_and_value: &str) -> Self {
        Self {
            view,
            purpose: purpose.to_owned(),
            keys: vec![key.to_owned()],
            lookup: format!("{key} {operator_and_value}"),
            sorted: 0,
            condition: "true".to_owned(),
            included: Vec::new(),
        }
    }

    fn sorted_by(mut self, keys: &[&str]) -> Self {
        self.keys.extend(keys.iter().map(|&key| key.to_owned()));
        self.sorted = keys.len();
        self
    }

    fn partial(self, condition: &str, included: &[&'static str]) -> Self {
        Self { condition: condition.to_owned(), included: included.to_vec(), ..self }
    }

    /// A statement that the index serves.
    pub(super) fn statement(&self) -> String {
        let Self { view, lookup, condition, .. } = self;
        let keys = self.expressions().collect::<Vec<_>>().join(", ");
        // All columns: otherwise another index that has the keys is read as a whole.
        let keys = if self.sorted == 0 { "*".to_owned() } else { keys };
        let order = self.keys[self.keys.len() - self.sorted..].join(", ");
        let order = if order.is_empty() { order } else { format!("ORDER BY {order} LIMIT 20") };
        format!("SELECT {keys} FROM registry_read.{view} WHERE {lookup} AND {condition} {order}")
    }

    /// The table behind the view that has all keys, and the statement that creates the index on it;
    /// `None` if there is no such table.
    pub(super) async fn create(
        &self,
        session: &mut Session,
    ) -> Result<Option<(ScannedTable, String)>, Error> {
        let Self { view, condition, .. } = self;
        let included = self.included.iter().copied();
        let columns = self.expressions().chain(included).collect::<Vec<_>>().join(", ");
        let sql = format!("SELECT {columns} FROM registry_read.{view} WHERE {condition}");
        let plan = plan(session, READ_TABLES, &sql, &[]).await?;
        let output = plan["Output"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let output: Vec<&str> = output.collect();
        let scans = scans(&plan);
        Ok(scans.iter().find_map(|scan| self.create_on(scan, &scans, &output)))
    }

    /// `scan`: the node that reads the table, one of `scans`; `output`: the keys and the included
    /// columns in terms of the tables.
    fn create_on(
        &self,
        scan: &Value,
        scans: &[&Value],
        output: &[&str],
    ) -> Option<(ScannedTable, String)> {
        let alias = scan["Alias"].as_str()?;
        // `None` if the expression has columns of no table, or of another one.
        let bare = |expression: &str| {
            let bare = without_alias(expression, alias);
            let aliases = scans.iter().filter_map(|other| other["Alias"].as_str());
            let is_mixed = aliases.into_iter().any(|other| without_alias(&bare, other) != bare);
            (bare != expression && !is_mixed && !bare.contains("SubPlan")).then_some(bare)
        };
        let (mut keys, mut names) = (Vec::new(), Vec::new());
        for (key, column) in self.keys.iter().zip(output) {
            let column = bare(column)?;
            let suffix = [BYTE_ORDER, DESCENDING].into_iter().find(|it| key.ends_with(it));
            let suffix = suffix.unwrap_or_default();
            if is_name(&column) {
                keys.push(format!("{column}{suffix}"));
                names.push(column);
            } else {
                keys.push(format!("({column}){suffix}"));
            }
        }
        // An expression is read in the index only if its columns are there, too.
        let readable = output.iter().filter(|column| bare(column).is_some());
        let mut included = Vec::new();
        for column in readable.flat_map(|column| columns(column, alias)) {
            if !names.contains(&column) && !included.contains(&column) {
                included.push(column);
            }
        }
        let included = if self.included.is_empty() || included.is_empty() {
            String::new()
        } else {
            format!(" INCLUDE ({})", included.join(", "))
        };
        let condition = match scan["Filter"].as_str() {
            None => String::new(),
            Some(filter) => format!(" WHERE {}", with_collation(&bare(filter)?)),
        };
        let (table, keys) = (ScannedTable::of(scan)?, keys.join(", "));
        let sql = format!("CREATE INDEX CONCURRENTLY ON {table} ({keys}){included}{condition};");
        Some((table, sql))
    }

    /// The keys without their directions.
    fn expressions(&self) -> impl Iterator<Item = &str> {
        self.keys.iter().map(|key| key.strip_suffix(DESCENDING).unwrap_or(key))
    }
}

const DESCENDING: &str = " DESC";

/// The collation by which the service compares texts. An index with another one does not serve it.
const BYTE_ORDER: &str = " COLLATE \"C\"";

/// The condition of [`WITHIN_CONTRACT`] on the fidelity, as a plan shows it.
const IS_FIDELITY: &str = " = ANY ('{Wrapped,Hybrid,Native}'::text[])";

/// A condition of a plan, which does not show the collations in it, as the service has it.
fn with_collation(condition: &str) -> String {
    condition.replace(IS_FIDELITY, &format!("{BYTE_ORDER}{IS_FIDELITY}"))
}

fn is_name(text: &str) -> bool {
    text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
}

/// The table behind a view that has a column of it; `None` if that is not known.
pub(super) async fn table_of(
    session: &mut Session,
    view: &str,
    column: &str,
) -> Result<Option<ScannedTable>, Error> {
    let sql = format!("SELECT {column} FROM registry_read.{view}");
    let plan = plan(session, READ_TABLES, &sql, &[]).await?;
    let output = plan["Output"][0].as_str().unwrap_or_default();
    let has_column = |scan: &&Value| {
        scan["Alias"].as_str().is_some_and(|alias| !columns(output, alias).is_empty())
    };
    Ok(scans(&plan).into_iter().find(has_column).and_then(ScannedTable::of))
}

/// All of them. `has_log`: whether there is a change log.
pub(super) fn suggested_indexes(has_log: bool) -> Vec<SuggestedIndex> {
    let id = "= '00000000-0000-0000-0000-000000000000'::uuid";
    let mut suggested = vec![
        SuggestedIndex::new("gene", "the phenotype of a gene", "id", id),
        SuggestedIndex::new("gene", "the count of broken rows", DOMAIN, "IS NOT NULL")
            .partial(&format!("({WITHIN_CONTRACT}) IS NOT TRUE"), &[]),
        SuggestedIndex::new("arena_evaluation", "the arena history of a gene", "gene_id", id)
            .sorted_by(&["evaluated_at::timestamptz DESC", "fitness_value::float8 DESC"])
            .partial(COUNTS, &["total_calls"]),
        SuggestedIndex::new("api_key", "the lookup of an API key", "key_hash", "= '\\x00'::bytea"),
    ];
    suggested.extend(searches());
    if has_log {
        let changed_in = "= '1'::xid8";
        suggested.extend([
            SuggestedIndex::new("change", "each poll of the change log", "changed_in", changed_in),
            SuggestedIndex::new("change", "each start of a replica", "changed_at", "> now()"),
        ]);
    }
    suggested
}

const DOMAIN: &str = "domain::text COLLATE \"C\"";

/// One for each sort, and for each sort within a domain. They have the fidelity, of which there are
/// three, so that a search by it reads nothing else; the insights of a domain use those of a domain.
fn searches() -> Vec<SuggestedIndex> {
    let mut suggested = Vec::new();
    let sorts = [
        ("fitness_score", FITNESS.to_owned()),
        ("reputation_score", "coalesce(reputation_score::float8, 0)".to_owned()),
        ("downloads", count("downloads")),
    ];
    for (purpose, keys, lookup) in [
        ("the search", vec![], "true".to_owned()),
        ("the search by domain", vec![DOMAIN.to_owned()], format!("{DOMAIN} = 'x'")),
    ] {
        for (column, value) in &sorts {
            let purpose = format!("{purpose}, sorted by {column},");
            let search = SuggestedIndex {
                keys: keys.clone(),
                lookup: lookup.clone(),
                ..SuggestedIndex::new("gene", &purpose, "", "")
            };
            let sorted = search.sorted_by(&[&format!("{value} DESC"), "id"]);
            suggested.push(sorted.partial(WITHIN_CONTRACT, &[*column, "fidelity::text"]));
        }
    }
    suggested
}
