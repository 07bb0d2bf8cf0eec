//! The requests in canonical form: two requests that mean the same are equal.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;
use thiserror::Error;

use super::gene::{Fidelity, GeneId};
use super::page::Page;

/// A request to the API, or of its pages.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Request {
    /// Search and rank genes.
    Search(GeneSearch),
    /// One gene's phenotype.
    Phenotype(GeneId),
    /// The insights of a domain's arena.
    Insights(DomainName),
    /// The numbers of the whole registry, for its pages.
    Numbers,
    /// How many genes a filter matches, for all pages of its searches.
    Counts(GeneFilter),
}

/// A search: a filter, an order and a page.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct GeneSearch {
    /// The filter.
    pub filter: GeneFilter,
    /// The order.
    pub sort: Sort,
    /// The page.
    pub page: Page,
}

/// The filter of a search. Searches with equal filters have the same `total`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct GeneFilter {
    /// Only genes of this domain, matched exactly.
    pub domain: Option<DomainName>,
    /// Only genes of this fidelity.
    pub fidelity: Option<Fidelity>,
}

/// The order of genes: descending by this value, then ascending by id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Sort {
    /// `fitness_score`.
    #[default]
    Fitness,
    /// `reputation_score`.
    Reputation,
    /// `downloads`.
    Downloads,
}

/// The text is not one of the orders.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("not one of fitness, reputation, downloads")]
pub struct UnknownSort;

impl Sort {
    /// All orders.
    pub const ALL: [Self; 3] = [Self::Fitness, Self::Reputation, Self::Downloads];

    /// The name of the order in requests.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Fitness => "fitness",
            Self::Reputation => "reputation",
            Self::Downloads => "downloads",
        }
    }
}

impl FromStr for Sort {
    type Err = UnknownSort;

    fn from_str(text: &str) -> Result<Self, UnknownSort> {
        Self::ALL.into_iter().find(|s| s.as_str() == text).ok_or(UnknownSort)
    }
}

/// A domain's name: 1 to 255 characters, none of them a control character.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct DomainName(String);

/// The text cannot be the name of a domain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("must be 1 to {} characters without control characters", DomainName::MAX_CHARS)]
pub struct InvalidDomain;

impl DomainName {
    /// The longest name, in Unicode scalar values.
    pub const MAX_CHARS: usize = 255;

    /// The name as a string.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for DomainName {
    type Err = InvalidDomain;

    fn from_str(text: &str) -> Result<Self, InvalidDomain> {
        // No text has more characters than bytes.
        let is_short = text.len() <= Self::MAX_CHARS || text.chars().count() <= Self::MAX_CHARS;
        let fits = is_short && !text.is_empty();
        if fits && !text.chars().any(char::is_control) {
            Ok(Self(text.to_owned()))
        } else {
            Err(InvalidDomain)
        }
    }
}

impl fmt::Display for DomainName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn domains_are_counted_in_characters_and_hold_no_control_characters() {
        assert!("a".parse::<DomainName>().is_ok());
        assert!("%_ \u{1F9EC}".parse::<DomainName>().is_ok());
        assert!("\u{1F9EC}".repeat(255).parse::<DomainName>().is_ok());
        for wrong in ["", "a\0b", "a\nb", "\u{7f}", "\u{85}", &"a".repeat(256)] {
            assert_eq!(wrong.parse::<DomainName>(), Err(InvalidDomain), "{wrong:?}");
        }
    }
}
