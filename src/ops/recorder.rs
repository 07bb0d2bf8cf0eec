//! The metadata and keys with which metrics are registered.

use metrics::{Key, Label, Level, Metadata};

pub(super) const METADATA: Metadata<'static> = Metadata::new("gene_registry", Level::INFO, None);

/// The key of a metric with one label.
pub(super) fn labelled(name: &'static str, label: &'static str, value: &'static str) -> Key {
    Key::from_parts(name, vec![Label::new(label, value)])
}
