//! A change of a document, and the version that it needs.

use std::fmt;

/// What a change needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Needs {
    /// Other texts, which no client depends on.
    Patch,
    /// More than before, or another name of a type: clients that were generated before go on working.
    Minor,
    /// Clients that were generated before could fail. In the public API, this needs a new path.
    Major,
}

/// A change, and where it is.
#[derive(Debug)]
pub(super) struct Change {
    pub(super) needs: Needs,
    pub(super) what: String,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let needs = match self.needs {
            Needs::Patch => "a patch version",
            Needs::Minor => "a minor version",
            Needs::Major => "a major version, or a new path (/v2) in the public API",
        };
        write!(f, "needs {needs}: {}", self.what)
    }
}
