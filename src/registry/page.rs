//! The page of a search: a limit and an offset. Values outside their ranges can't be constructed.

/// Genes on a page: 1 to 50.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PageLimit(u8);

impl PageLimit {
    /// The largest limit.
    pub const MAX: u8 = 50;

    /// The limit; `None` outside 1 to 50. It is never clamped.
    pub fn new(limit: u64) -> Option<Self> {
        let limit = u8::try_from(limit).ok()?;
        (1..=Self::MAX).contains(&limit).then_some(Self(limit))
    }

    /// The limit.
    pub const fn get(self) -> u8 {
        self.0
    }
}

impl Default for PageLimit {
    fn default() -> Self {
        Self(20)
    }
}

/// Genes skipped before a page: 0 to 2147483647.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct PageOffset(u32);

impl PageOffset {
    /// The largest offset.
    pub const MAX: u32 = 2_147_483_647;

    /// The offset; `None` above 2147483647. It is never clamped.
    pub fn new(offset: u64) -> Option<Self> {
        let offset = u32::try_from(offset).ok()?;
        (offset <= Self::MAX).then_some(Self(offset))
    }

    /// The offset.
    pub const fn get(self) -> u32 {
        self.0
    }
}

/// A page: `limit` genes after the first `offset`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Page {
    limit: PageLimit,
    offset: PageOffset,
}

impl Page {
    /// The page of `limit` genes after the first `offset`.
    pub const fn new(limit: PageLimit, offset: PageOffset) -> Self {
        Self { limit, offset }
    }

    /// The page of the same size after the first `offset`.
    #[must_use]
    pub const fn with_offset(self, offset: PageOffset) -> Self {
        Self { offset, ..self }
    }

    /// Genes on the page, 1 to 50.
    pub const fn limit(self) -> u8 {
        self.limit.get()
    }

    /// Genes skipped, 0 to 2147483647.
    pub const fn offset(self) -> u32 {
        self.offset.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_and_offsets_outside_their_ranges_are_refused() {
        for (limit, is_valid) in [(0, false), (1, true), (50, true), (51, false), (276, false)] {
            assert_eq!(PageLimit::new(limit).is_some(), is_valid, "{limit}");
        }
        for (offset, is_valid) in [(0, true), (2_147_483_647, true), (2_147_483_648, false)] {
            assert_eq!(PageOffset::new(offset).is_some(), is_valid, "{offset}");
        }
        assert_eq!((Page::default().limit(), Page::default().offset()), (20, 0));
    }
}
