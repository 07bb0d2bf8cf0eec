//! Writes the Prometheus text format, for metrics that are read when `/metrics` is requested.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::catalog;

/// The samples of each metric, by its name, as text.
#[derive(Debug, Default)]
pub struct Exposition(BTreeMap<&'static str, String>);

impl Exposition {
    /// Adds a sample of a metric in the [`catalog`]; labels in the order of the catalog.
    pub fn sample(&mut self, name: &'static str, labels: &[(&'static str, &str)], value: f64) {
        let pairs = labels.iter().map(|(label, value)| format!("{label}=\"{}\"", escaped(value)));
        let mut labels = pairs.collect::<Vec<_>>().join(",");
        if !labels.is_empty() {
            labels = format!("{{{labels}}}");
        }
        // Writing to a string cannot fail.
        let _ = writeln!(self.0.entry(name).or_default(), "{name}{labels} {value}");
    }

    /// Adds a sample that is 1 or 0.
    pub fn flag(&mut self, name: &'static str, labels: &[(&'static str, &str)], holds: bool) {
        self.sample(name, labels, f64::from(u8::from(holds)));
    }

    /// All samples, with the help and the type of each metric.
    pub fn render(self) -> String {
        self.render_after(String::new())
    }

    /// Appends all samples to `text`, with the help and the type of each metric.
    pub(super) fn render_after(self, mut text: String) -> String {
        for (name, samples) in self.0 {
            if let Some(found) = catalog::find(name) {
                let (help, kind) = (found.help, found.kind.as_str());
                let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
            }
            text.push_str(&samples);
        }
        text
    }
}

/// The value of a label, with the characters escaped that the format reserves.
fn escaped(value: &str) -> String {
    value.replace('\\', r"\\").replace('"', r#"\""#).replace('\n', r"\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_follow_their_metric_and_labels_are_escaped() {
        let mut out = Exposition::default();
        out.sample("gene_registry_domain_genes", &[("domain", "a\"b\\c")], 3.0);
        out.flag("gene_registry_ready", &[], true);
        out.sample("gene_registry_domain_genes", &[("domain", "d")], 0.25);
        let text = out.render_after("before 1\n".to_owned());
        let lines: Vec<_> = text.lines().filter(|line| !line.starts_with("# HELP")).collect();
        let expected = [
            "before 1",
            "# TYPE gene_registry_domain_genes gauge",
            r#"gene_registry_domain_genes{domain="a\"b\\c"} 3"#,
            r#"gene_registry_domain_genes{domain="d"} 0.25"#,
            "# TYPE gene_registry_ready gauge",
            "gene_registry_ready 1",
        ];
        assert_eq!(lines, expected);
    }
}
