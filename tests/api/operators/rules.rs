//! Alerts and dashboard: Prometheus accepts them, the alerts pass their own tests, and both refer
//! only to existing metrics.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use gene_registry::ops::catalog::{self, MetricKind};
use serde_json::Value;

use super::metrics::{metrics_before_any_request, metrics_of_a_replica, metrics_with_tls};
use crate::support::process::find_program;
use crate::support::prometheus::{rules, rules_in};

/// The names of the service's and the process's metrics in an expression, without the suffixes of
/// histograms.
pub(super) fn names_in(expression: &str) -> Vec<String> {
    let is_part = |character: char| character.is_ascii_alphanumeric() || "_:".contains(character);
    let words = expression.split(|character| !is_part(character));
    let ours =
        words.filter(|word| word.starts_with("gene_registry_") || word.starts_with("process_"));
    let without_suffix = |word: &str| {
        let parts = ["_bucket", "_sum", "_count"].iter();
        let base = parts.filter_map(|part| word.strip_suffix(part)).find(|base| {
            let found = catalog::ALL.iter().find(|one| one.name == *base);
            found.is_some_and(|one| one.kind == MetricKind::Histogram)
        });
        base.unwrap_or(word).to_owned()
    };
    ours.map(without_suffix).collect()
}

fn file(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn read(path: &str) -> String {
    std::fs::read_to_string(file(path)).unwrap()
}

/// All strings under keys of this name, at any depth.
fn strings_under(value: &Value, key: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                match value {
                    Value::String(text) if name == key => found.push(text.clone()),
                    other => strings_under(other, key, found),
                }
            }
        }
        Value::Array(values) => values.iter().for_each(|one| strings_under(one, key, found)),
        _ => {}
    }
}

#[track_caller]
fn succeeded(output: &Output) {
    let said = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    assert!(output.status.success(), "{}{}", said[0], said[1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_exposes_every_metric_of_alerts_and_dashboard() {
    let text = metrics_of_a_replica().await.text + &metrics_with_tls().await.text;
    let there: BTreeSet<_> =
        text.lines().filter(|line| !line.starts_with('#')).flat_map(names_in).collect();

    let dashboard: Value =
        serde_json::from_str(&read("config/grafana/dashboards/gene-registry.json")).unwrap();
    let mut expressions = Vec::new();
    strings_under(&dashboard, "expr", &mut expressions);
    strings_under(&dashboard["templating"], "query", &mut expressions);
    let on_dashboard = expressions.len();
    expressions.extend(rules().iter().map(|rule| rule["expr"].as_str().unwrap().to_owned()));

    assert!(on_dashboard > 50 && expressions.len() > on_dashboard + 15, "all were found");
    for expression in &expressions {
        for name in names_in(expression) {
            assert!(there.contains(&name), "{name}, in {expression}");
        }
    }
}

/// A metric with its labels, or with what a rule asks of them: name, operator and value.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Selector {
    metric: String,
    labels: Vec<(String, String, String)>,
}

/// The selectors of this service's and its process's metrics in an expression, or in a line of `/metrics`.
fn selectors_in(expression: &str) -> Vec<Selector> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut found = Vec::new();
    let mut rest = expression;
    while let Some(begin) = ["gene_registry_", "process_"].iter().filter_map(|p| rest.find(p)).min()
    {
        rest = &rest[begin..];
        let end = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
        let (metric, after) = rest.split_at(end);
        let inside = after.strip_prefix('{').and_then(|after| after.split_once('}'));
        let labels = inside.map(|(labels, _)| labels).unwrap_or_default();
        let label = |text: &str| {
            let begin = text.find(|c| !is_part(c)).unwrap();
            let (operator, value) = text[begin..].split_once('"').unwrap();
            (text[..begin].to_owned(), operator.to_owned(), value.trim_end_matches('"').to_owned())
        };
        let labels = labels.split(',').filter(|label| !label.is_empty()).map(label).collect();
        found.push(Selector { metric: metric.to_owned(), labels });
        rest = inside.map_or(after, |(_, after)| after);
    }
    found
}

impl Selector {
    /// Whether it selects this series. Prometheus adds the label `job` itself.
    fn selects(&self, series: &Self) -> bool {
        let agrees = |(name, operator, value): &(String, String, String)| {
            let actual = series.labels.iter().find(|(label, ..)| label == name);
            let Some((.., actual)) = actual else { return name == "job" };
            match operator.as_str() {
                "=" => actual == value,
                "=~" => {
                    let pattern = serde_json::json!({ "pattern": format!("^(?:{value})$") });
                    jsonschema::is_valid(&pattern, &actual.as_str().into())
                }
                other => panic!("the operator {other}"),
            }
        };
        self.metric == series.metric && self.labels.iter().all(agrees)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_series_of_an_alert_exists_before_the_first_request() {
    let text = metrics_before_any_request().await.text;
    let samples = text.lines().filter(|line| !line.starts_with('#')).filter_map(|line| {
        let (series, value) = line.rsplit_once(' ')?;
        Some((selectors_in(series).pop()?, value.parse::<f64>().unwrap()))
    });
    let samples: Vec<_> = samples.collect();

    let mut selectors = 0;
    for rule in rules() {
        for selector in selectors_in(rule["expr"].as_str().unwrap()) {
            selectors += 1;
            let selected: Vec<_> =
                samples.iter().filter(|(series, _)| selector.selects(series)).collect();
            assert!(!selected.is_empty(), "{}: {selector:?} in {text}", rule["alert"]);
            // Panics are counted by the process, in which other tests cause some.
            let is_counted_here = !selector.metric.starts_with("process_")
                && selector.metric != "gene_registry_task_panics_total";
            if selector.metric.ends_with("_total") && is_counted_here {
                assert!(selected.iter().all(|(_, value)| *value == 0.0), "{selected:?}");
            }
        }
    }
    assert!(selectors > 30, "{selectors} were found");
    // The first panic of each operation is an increase.
    for route in ["/v1/genes", "/v1/genes/{id}/phenotype", "/v1/arena/insights"] {
        for status in ["500", "502", "503"] {
            let series = format!(
                "gene_registry_requests_total{{route=\"{route}\",method=\"GET\",status=\"{status}\"}} 0\n"
            );
            assert!(text.contains(&series), "{series}: {text}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn prometheus_accepts_rules_and_metrics_and_the_rules_pass_their_tests() {
    let promtool = find_program("promtool");
    let run = |args: &[&str], path: &str| {
        Command::new(&promtool).args(args).arg(file(path)).output().unwrap()
    };
    succeeded(&run(&["check", "config"], "config/prometheus/prometheus.yml"));
    for rules in ["alerts", "replicas", "canary"] {
        succeeded(&run(&["check", "rules"], &format!("config/prometheus/{rules}.yml")));
        succeeded(&run(&["test", "rules"], &format!("config/prometheus/{rules}_test.yml")));
    }

    let mut check = Command::new(&promtool);
    check.args(["check", "metrics"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut check = check.stderr(Stdio::piped()).spawn().unwrap();
    let text = metrics_of_a_replica().await.text;
    check.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    succeeded(&check.wait_with_output().unwrap());
}

#[test]
fn every_alert_is_tested_and_documented() {
    let tests = ["alerts", "replicas", "canary"];
    let tests = tests.map(|rules| read(&format!("config/prometheus/{rules}_test.yml"))).concat();
    let guide = read("docs/operations.md");
    let more = ["replicas", "canary"];
    let more = more.map(|rules| rules_in(&format!("config/prometheus/{rules}.yml")));
    let alerts = [rules(), more.concat()].concat();
    let of_canary = rules_in("config/prometheus/canary.yml");
    let expressions = of_canary.iter().map(|alert| alert["expr"].as_str().unwrap());
    for metric in expressions.flat_map(names_in) {
        assert!(catalog::CANARY.iter().any(|one| one.name == metric), "{metric}");
    }
    for alert in &alerts {
        let name = alert["alert"].as_str().unwrap();
        assert!(tests.contains(&format!("alertname: {name}\n        exp_alerts:")), "{name}");
        assert!(guide.contains(&format!("\n### {name}\n")), "docs/operations.md: {name}");
        let annotations = &alert["annotations"];
        let base = "{{ $externalLabels.runbook_base_url }}";
        let section = format!("{base}/operations.md#{}", name.to_lowercase());
        assert_eq!(annotations["runbook_url"], *section, "{name}");
        assert!(annotations["summary"].is_string(), "{name}");
        let severity = alert["labels"]["severity"].as_str().unwrap();
        assert!(["page", "ticket", "info"].contains(&severity), "{name}: {severity}");
    }
    let sections = guide.lines().filter_map(|line| line.strip_prefix("### GeneRegistry"));
    assert_eq!(sections.count(), alerts.len(), "no section without an alert");
}
