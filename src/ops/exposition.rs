//! Writes the Prometheus text format, for metrics that are read when `/metrics` is requested.

use std::fmt::Write as _;

use super::catalog;

/// Text to which samples are appended. The samples of one metric must be consecutive.
#[derive(Debug, Default)]
pub struct Exposition {
    text: String,
    family: &'static str,
}

impl Exposition {
    /// Appends samples to `text`.
    pub(super) fn after(text: String) -> Self {
        Self { text, family: "" }
    }

    /// Appends a sample of a metric in the [`catalog`]; labels in the order of the catalog.
    pub fn sample(&mut self, name: &'static str, labels: &[(&'static str, &str)], value: f64) {
        if self.family != name {
            self.begin(name);
        }
        self.text.push_str(name);
        for (index, (label, value)) in labels.iter().enumerate() {
            self.text.push(if index == 0 { '{' } else { ',' });
            self.text.push_str(label);
            self.text.push_str("=\"");
            push_escaped(&mut self.text, value);
            self.text.push('"');
        }
        if !labels.is_empty() {
            self.text.push('}');
        }
        // Writing to a string cannot fail.
        let _ = writeln!(self.text, " {value}");
    }

    /// Appends a sample that is 1 or 0.
    pub fn flag(&mut self, name: &'static str, labels: &[(&'static str, &str)], holds: bool) {
        self.sample(name, labels, if holds { 1.0 } else { 0.0 });
    }

    pub(super) fn into_text(self) -> String {
        self.text
    }

    fn begin(&mut self, name: &'static str) {
        self.family = name;
        if let Some(found) = catalog::find(name) {
            let kind = found.kind.as_str();
            let _ = writeln!(self.text, "# HELP {name} {}\n# TYPE {name} {kind}", found.help);
        }
    }
}

fn push_escaped(text: &mut String, value: &str) {
    for character in value.chars() {
        match character {
            '\\' => text.push_str("\\\\"),
            '"' => text.push_str("\\\""),
            '\n' => text.push_str("\\n"),
            other => text.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_follow_their_metric_and_labels_are_escaped() {
        let mut out = Exposition::after("before 1\n".to_owned());
        out.flag("gene_registry_ready", &[], true);
        out.sample("gene_registry_domain_genes", &[("domain", "a\"b\\c")], 3.0);
        out.sample("gene_registry_domain_genes", &[("domain", "d")], 0.25);
        let text = out.into_text();
        let lines: Vec<_> = text.lines().filter(|line| !line.starts_with("# HELP")).collect();
        let expected = [
            "before 1",
            "# TYPE gene_registry_ready gauge",
            "gene_registry_ready 1",
            "# TYPE gene_registry_domain_genes gauge",
            r#"gene_registry_domain_genes{domain="a\"b\\c"} 3"#,
            r#"gene_registry_domain_genes{domain="d"} 0.25"#,
        ];
        assert_eq!(lines, expected);
    }
}
