//! The three requests in canonical form: two requests that mean the same are equal.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;
use thiserror::Error;

use super::gene::{Fidelity, GeneId};

/// One request of the API.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Request {
    /// Search and rank genes.
    Search(GeneSearch),
    /// One gene's phenotype.
    Phenotype(GeneId),
    /// The insights of a domain's arena.
    Insights(DomainName),
}

/// A search: filter, order and page.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct GeneSearch {
    /// The filter.
    pub filter: GeneFilter,
    /// The order.
    pub sort: Sort,
    /// The page.
    pub page: Page,
}

/// The filter of a search. Also the key of its `total`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct GeneFilter {
    /// Only this domain, matched exactly.
    pub domain: Option<DomainName>,
    /// Only this fidelity.
    pub fidelity: Option<Fidelity>,
}

/// The order of a search: descending by this value, then ascending by id.
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

/// The text is none of the sort orders.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("not one of fitness, reputation, downloads")]
pub struct UnknownSort;

impl Sort {
    /// All orders.
    pub const ALL: [Self; 3] = [Self::Fitness, Self::Reputation, Self::Downloads];

    /// The order in requests.
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

/// A page: `limit` genes after the first `offset`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Page {
    limit: u8,
    offset: u32,
}

/// Outside what a page can be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum InvalidPage {
    /// Not 1 to [`Page::MAX_LIMIT`].
    #[error("limit must be 1 to {}", Page::MAX_LIMIT)]
    Limit,
    /// Not 0 to [`Page::MAX_OFFSET`].
    #[error("offset must be 0 to {}", Page::MAX_OFFSET)]
    Offset,
}

impl Page {
    /// Genes on a page where nothing else is asked for.
    pub const DEFAULT_LIMIT: u8 = 20;
    /// Genes on a page at most.
    pub const MAX_LIMIT: u8 = 50;
    /// Genes skipped at most.
    pub const MAX_OFFSET: u32 = 2_147_483_647;

    /// A page. Refuses, never clamps.
    pub fn new(limit: u64, offset: u64) -> Result<Self, InvalidPage> {
        let limit = u8::try_from(limit)
            .ok()
            .filter(|limit| (1..=Self::MAX_LIMIT).contains(limit))
            .ok_or(InvalidPage::Limit)?;
        let offset = u32::try_from(offset)
            .ok()
            .filter(|offset| *offset <= Self::MAX_OFFSET)
            .ok_or(InvalidPage::Offset)?;
        Ok(Self { limit, offset })
    }

    /// Genes on the page, 1 to 50.
    pub const fn limit(self) -> u8 {
        self.limit
    }

    /// Genes skipped, 0 to 2147483647.
    pub const fn offset(self) -> u32 {
        self.offset
    }
}

impl Default for Page {
    fn default() -> Self {
        Self { limit: Self::DEFAULT_LIMIT, offset: 0 }
    }
}

/// A domain's name: 1 to 255 characters, none of them a control character.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct DomainName(String);

/// Outside what a domain's name can be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("must be 1 to {} characters without control characters", DomainName::MAX_CHARS)]
pub struct InvalidDomain;

impl DomainName {
    /// Characters (Unicode scalar values) at most.
    pub const MAX_CHARS: usize = 255;

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for DomainName {
    type Err = InvalidDomain;

    fn from_str(text: &str) -> Result<Self, InvalidDomain> {
        let fits = !text.is_empty() && text.chars().count() <= Self::MAX_CHARS;
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
    fn pages_outside_the_bounds_are_refused() {
        assert_eq!(Page::new(20, 0), Ok(Page::default()));
        assert!(Page::new(1, 2_147_483_647).is_ok());
        assert!(Page::new(50, 0).is_ok());
        assert_eq!(Page::new(0, 0), Err(InvalidPage::Limit));
        assert_eq!(Page::new(51, 0), Err(InvalidPage::Limit));
        assert_eq!(Page::new(256 + 20, 0), Err(InvalidPage::Limit));
        assert_eq!(Page::new(20, 2_147_483_648), Err(InvalidPage::Offset));
    }

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
