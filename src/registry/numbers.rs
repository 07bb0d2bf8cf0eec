//! Numbers of the whole registry, for people who have no key.

use serde::{Deserialize, Serialize};

use super::number::Count;

/// How many genes and domains the registry has, and in which domains they are.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RegistryNumbers {
    /// The number of published genes.
    pub genes: Count,
    /// The number of domains with such genes.
    pub total_domains: Count,
    /// The largest domains first, then by name; at most [`Self::MAX_DOMAINS`].
    pub domains: Vec<DomainCount>,
}

/// The number of published genes of a domain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DomainCount {
    /// The domain.
    pub domain: String,
    /// The number of its genes.
    pub genes: Count,
}

impl RegistryNumbers {
    /// The maximum number of domains that are listed.
    pub const MAX_DOMAINS: usize = 5_000;
}
