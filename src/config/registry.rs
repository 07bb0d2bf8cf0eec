//! `[registry]`: defaults for values that the registry leaves empty.

use serde::Deserialize;

/// Defaults for values that the registry leaves empty.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RegistryConfig {
    /// The install command of genes without one; `{id}` is replaced by the gene's id.
    pub install_command: String,
}
