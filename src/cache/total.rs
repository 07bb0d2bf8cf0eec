//! Totals of searches, cached by filter, so that paging through a search does not count the genes
//! again.

use crate::registry::{Count, Page};
use crate::upstream::ReadStamp;

/// The number of genes that match a filter.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Total {
    pub(super) count: Count,
    pub(super) seen: ReadStamp,
}

/// Whether a page of `length` genes is consistent with a total that was read at another time. If
/// not, genes were added or removed in between, and both must be read together.
pub(super) fn fits(total: Count, page: Page, length: usize) -> bool {
    let end = u64::from(page.offset()) + length as u64;
    let is_full = length == usize::from(page.limit());
    let before_the_end = end <= total.get();
    before_the_end && (is_full || end == total.get())
}

/// Whether a page begins at or after the end, so that it is known to be empty.
pub(super) fn is_past(total: Count, page: Page) -> bool {
    u64::from(page.offset()) >= total.get()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::registry::{PageLimit, PageOffset};

    fn page(limit: u64, offset: u64) -> Page {
        Page::new(
            PageLimit::new(limit).expect("a limit"),
            PageOffset::new(offset).expect("an offset"),
        )
    }

    #[test]
    fn examples_of_pages_that_fit_a_total_and_of_pages_that_do_not() {
        let total = Count::saturating(45);
        assert!(fits(total, page(20, 0), 20));
        assert!(fits(total, page(20, 40), 5));
        assert!(!fits(total, page(20, 40), 6), "beyond the total");
        assert!(!fits(total, page(20, 40), 4), "a short page that does not end at it");
        assert!(!fits(total, page(20, 20), 0), "an empty page before it");
        assert!(fits(Count::default(), page(20, 0), 0));
        assert!(is_past(total, page(20, 45)) && !is_past(total, page(20, 44)));
    }

    proptest! {
        #[test]
        fn a_page_of_an_unchanged_registry_always_fits(
            total in 0..200_u32,
            limit in 1..=50_u64,
            offset in 0..220_u64,
        ) {
            let length = u64::from(total).saturating_sub(offset).min(limit);
            let (total, page) = (Count::saturating(total.into()), page(limit, offset));
            prop_assert!(is_past(total, page) || fits(total, page, length as usize));
        }
    }
}
