//! The values of the change log: changes, and the values that reads depend on.

use crate::registry::{DomainName, GeneFilter, GeneId, KeyHash};

/// How far back the log is loaded at the start, in hours: longer than any entry is cached.
pub const HORIZON_HOURS: i64 = 25;

/// The values that a change may affect.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ChangeScope {
    /// Any value.
    All,
    /// Any gene.
    Genes,
    /// Any API key.
    Keys,
    /// A gene.
    Gene(GeneId),
    /// A domain, by name.
    Domain(Box<str>),
    /// An API key, by the hash of the whole key.
    Key(KeyHash),
}

/// One row of the change log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// What it may affect.
    pub scope: ChangeScope,
    /// The transaction that made it; `None` for several.
    pub xid: Option<u64>,
}

/// The result of a poll of the change log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Changes {
    /// All changes that the given snapshot does not see. Where there were too many of genes or of
    /// keys, one of [`ChangeScope::Genes`] or [`ChangeScope::Keys`] replaces them.
    These(Vec<Change>),
    /// The upstream has no change log: only ages limit the use of cached entries.
    NoLog,
}

/// The values that a read depends on.
#[derive(Debug, Clone, Copy)]
pub enum DependsOn<'a> {
    /// One gene.
    Gene(GeneId),
    /// The genes of a domain.
    Domain(&'a DomainName),
    /// Any gene.
    AllGenes,
    /// One API key.
    Key(&'a KeyHash),
    /// Nothing that the log names: only ages limit the use of the read.
    Nothing,
}

impl<'a> DependsOn<'a> {
    /// The values that a search with this filter depends on.
    pub fn of_filter(filter: &'a GeneFilter) -> Self {
        filter.domain.as_ref().map_or(Self::AllGenes, Self::Domain)
    }
}
