//! Plans of statements, as `EXPLAIN (VERBOSE, FORMAT JSON)` shows them.

use std::collections::BTreeSet;
use std::fmt;

use serde_json::Value;
use tokio_postgres::Error;

use super::session::{Session, TypedValue};

/// A table that a plan reads as a whole.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ScannedTable {
    schema: String,
    name: String,
}

/// The plan of a statement, after these `SET LOCAL` statements.
pub(super) async fn plan(
    session: &mut Session,
    settings: &str,
    sql: &str,
    values: &[TypedValue<'_>],
) -> Result<Value, Error> {
    let sql = format!("EXPLAIN (VERBOSE, FORMAT JSON) {sql}");
    let rows = session.rows_with(settings, &sql, values).await?;
    let plans: Option<Value> = rows.first().map(|row| row.try_get(0)).transpose()?;
    Ok(plans.map_or(Value::Null, |mut plans| plans[0]["Plan"].take()))
}

impl ScannedTable {
    pub(super) fn new(schema: String, name: String) -> Self {
        Self { schema, name }
    }

    /// The table of this node, if it reads one as a whole.
    pub(super) fn of(node: &Value) -> Option<Self> {
        let text = |name: &str| node[name].as_str().map(str::to_owned);
        let is_scan = node["Node Type"] == "Seq Scan";
        Some(Self { schema: text("Schema")?, name: text("Relation Name")? }).filter(|_| is_scan)
    }

    /// All in a plan.
    pub(super) fn all_in(plan: &Value) -> BTreeSet<Self> {
        scans(plan).into_iter().filter_map(Self::of).collect()
    }
}

/// The nodes of a plan that read a table as a whole.
pub(super) fn scans(plan: &Value) -> Vec<&Value> {
    let below = plan["Plans"].as_array().into_iter().flatten().flat_map(scans);
    below.chain(ScannedTable::of(plan).map(|_| plan)).collect()
}

/// Reading and sorting fewer rows is fast.
const MANY_ROWS: f64 = 10_000.0;

/// What a plan does with many rows, whatever index it uses for the rest. A table that is read alone,
/// for a count, is no finding.
pub(super) fn costly_steps(plan: &Value) -> BTreeSet<String> {
    steps_below(plan, false)
}

fn steps_below(node: &Value, is_joined: bool) -> BTreeSet<String> {
    let is_join =
        matches!(node["Node Type"].as_str(), Some("Nested Loop" | "Hash Join" | "Merge Join"));
    let below = node["Plans"].as_array().into_iter().flatten().flat_map(|child| {
        // The plan of a subquery begins anew.
        let is_subquery =
            matches!(child["Parent Relationship"].as_str(), Some("InitPlan" | "SubPlan"));
        steps_below(child, !is_subquery && (is_joined || is_join))
    });
    let mut steps: BTreeSet<_> = below.collect();
    if node["Plan Rows"].as_f64().is_some_and(|rows| rows >= MANY_ROWS) {
        let table = ScannedTable::of(node).filter(|_| is_joined);
        steps.extend(table.map(|table| format!("reads the whole table {table}")));
        if node["Node Type"] == "Sort" {
            steps.insert("sorts all rows of the view".to_owned());
        }
    }
    steps
}

impl fmt::Display for ScannedTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", quoted(&self.schema), quoted(&self.name))
    }
}

/// A name as SQL; in quotes if that may be necessary.
fn quoted(name: &str) -> String {
    let is_plain = name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    if is_plain { name.to_owned() } else { format!("\"{}\"", name.replace('"', "\"\"")) }
}

/// An expression of a plan without the alias of its table before the columns.
pub(super) fn without_alias(expression: &str, alias: &str) -> String {
    between_aliases(expression, alias).concat()
}

/// The columns of a table in an expression of a plan.
pub(super) fn columns(expression: &str, alias: &str) -> Vec<String> {
    let after = between_aliases(expression, alias).into_iter().skip(1);
    after.map(|text| text[..name_length(text)].to_owned()).collect()
}

/// The parts of an expression before and after each alias.
fn between_aliases<'a>(expression: &'a str, alias: &str) -> Vec<&'a str> {
    let prefixes = [format!("{alias}."), format!("\"{}\".", alias.replace('"', "\"\""))];
    let (mut parts, mut begin, mut is_literal, mut follows_name) = (Vec::new(), 0, false, false);
    for (index, next) in expression.char_indices() {
        let rest = &expression[index..];
        let prefix = prefixes.iter().find(|prefix| rest.starts_with(prefix.as_str()));
        if let Some(prefix) = prefix.filter(|_| !is_literal && !follows_name && index >= begin) {
            parts.push(&expression[begin..index]);
            begin = index + prefix.len();
        }
        is_literal ^= next == '\'' && index >= begin;
        follows_name = next.is_alphanumeric() || "_.\"".contains(next);
    }
    parts.push(&expression[begin..]);
    parts
}

/// The length of the name at the beginning of an expression.
fn name_length(text: &str) -> usize {
    let mut is_quoted = false;
    let is_end = |c: char| {
        is_quoted ^= c == '"';
        !is_quoted && c != '"' && !c.is_alphanumeric() && c != '_' && c != '$'
    };
    text.find(is_end).unwrap_or(text.len())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn aliases_are_removed_from_columns_only() {
        for (expression, alias, expected) in [
            ("g.id", "g", "id"),
            ("COALESCE(g.score, '0'::float8)", "g", "COALESCE(score, '0'::float8)"),
            ("(g.a = 'g.x ''g.y'''::text)", "g", "(a = 'g.x ''g.y'''::text)"),
            ("(gg.g = g.g)", "g", "(gg.g = g)"),
            ("(\"My genes\".id)", "My genes", "(id)"),
            ("\"user\".id", "user", "id"),
        ] {
            assert_eq!(without_alias(expression, alias), expected);
        }
    }

    #[test]
    fn columns_of_a_table_are_found_in_expressions() {
        for (expression, expected) in [
            (
                "CASE i.kind WHEN 1 THEN 'i.x'::text ELSE i.\"My \"\"kind\" END",
                &["kind", "\"My \"\"kind\""][..],
            ),
            ("(i.score)::double precision", &["score"][..]),
            ("(ii.score + j.i)", &[][..]),
        ] {
            assert_eq!(columns(expression, "i"), expected, "{expression}");
        }
    }

    #[test]
    fn sorts_and_joins_of_many_rows_are_found() {
        let scan = |rows| json!({"Node Type": "Seq Scan", "Schema": "s", "Relation Name": "t", "Plan Rows": rows});
        let sort = |rows, below| json!({"Node Type": "Sort", "Plan Rows": rows, "Plans": [below]});
        let join = |below| json!({"Node Type": "Hash Join", "Plan Rows": 1, "Plans": [below]});
        let count = json!({"Node Type": "Aggregate", "Parent Relationship": "InitPlan", "Plans": [scan(50_000)]});
        for cheap in [sort(20, join(scan(100))), join(count)] {
            assert_eq!(costly_steps(&cheap), BTreeSet::new(), "{cheap}");
        }
        let expected = ["reads the whole table s.t", "sorts all rows of the view"];
        let plan = json!({"Node Type": "Limit", "Plans": [sort(50_000, join(scan(50_000)))]});
        assert_eq!(costly_steps(&plan), BTreeSet::from(expected.map(str::to_owned)));
    }

    #[test]
    fn tables_that_are_read_as_a_whole_are_found_at_any_depth() {
        let scan = |schema, name| json!({"Node Type": "Seq Scan", "Schema": schema, "Relation Name": name, "Alias": "x"});
        let index = json!({"Node Type": "Index Scan", "Schema": "s", "Relation Name": "t"});
        let plan = json!({"Node Type": "Sort", "Plans": [
            {"Node Type": "Nested Loop", "Plans": [scan("b", "My \"t\""), index]}, scan("a", "t")
        ]});
        let found: Vec<_> = ScannedTable::all_in(&plan).iter().map(ToString::to_string).collect();
        assert_eq!(found, ["a.t", "b.\"My \"\"t\"\"\""]);
        assert_eq!(ScannedTable::of(&plan), None);
    }
}
