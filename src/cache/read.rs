//! Reads from the upstream, bounded by the limiter. Pages of a search reuse a known total, so that
//! paging does not count the matching genes for every page.

use std::sync::Arc;

use super::entry::ResponseBody;
use super::load::Loader;
use super::read_limiter::Priority;
use super::reply::{PageResult, ReadError};
use super::serve_policy::depends_on;
use crate::registry::{Count, GeneFilter, GenePage, GeneSearch, Page, Request};
use crate::sync::{FlightOutcome, TaskPanicked};
use crate::upstream::{BootInstant, Currency, DependsOn, Read, ReadOrder, ReadStart, Upstream};

/// Pages with a larger offset than this are deep pages, whose concurrency is bounded separately.
const DEEP_OFFSET: u32 = 1000;

impl Loader {
    /// Reads the response, in a later state than `since`, once the limiter admits the read; no value
    /// if the gene or domain does not exist.
    pub(super) async fn read(
        self: &Arc<Self>,
        request: &Request,
        since: Option<ReadOrder>,
        priority: Priority,
    ) -> Result<Read<Option<ResponseBody>>, ReadError> {
        let (upstream, depends_on) = (&self.policy.upstream, depends_on(request));
        match request {
            Request::Search(search) => {
                let found = self.read_page(search, since, priority).await?;
                Ok(found.map(|page| Some(ResponseBody::page(search, &page))))
            }
            Request::Phenotype(id) => {
                let _permit = self.limiter.admit(priority, false).await?;
                let read = |from: Arc<dyn Upstream>| async move { from.phenotype(*id).await };
                let found = upstream.read_genes(depends_on, since, read).await?;
                Ok(found.map(|found| found.as_ref().map(ResponseBody::of)))
            }
            Request::Insights(domain) => {
                let (_permit, now) = (self.limiter.admit(priority, false).await?, upstream.now());
                let read =
                    |from: Arc<dyn Upstream>| async move { from.insights(domain, now).await };
                let found = upstream.read_genes(depends_on, since, read).await?;
                Ok(found.map(|found| found.as_ref().map(ResponseBody::of)))
            }
            Request::Numbers => {
                let _permit = self.limiter.admit(priority, false).await?;
                let read = |from: Arc<dyn Upstream>| async move { from.numbers().await };
                let found = upstream.read_genes(depends_on, since, read).await?;
                Ok(found.map(|numbers| Some(ResponseBody::of(&numbers))))
            }
        }
    }

    /// Reads a page, and the total if it is unknown or contradicts the page.
    async fn read_page(
        self: &Arc<Self>,
        search: &GeneSearch,
        since: Option<ReadOrder>,
        priority: Priority,
    ) -> Result<Read<GenePage>, ReadError> {
        let filter = &search.filter;
        let total = match self.known_total(filter) {
            Some(total) => total,
            None => {
                let FlightOutcome { value, joined } = self.count(search, since, priority).await?;
                let found = value?;
                if !joined {
                    return Ok(Arc::unwrap_or_clone(found));
                }
                Arc::new(Read { value: found.value.total, seen: found.seen.clone() })
            }
        };
        let page = |data| GenePage::new(search.page, data, total.value);
        if is_past(total.value, search.page) {
            return Ok(Read { value: page(Vec::new()), seen: total.seen.clone() });
        }
        {
            let _permit = self.limiter.admit(priority, is_deep(search)).await?;
            // The page must not be older than its total.
            let since = since.max(Some(total.seen.order()));
            let read = |from: Arc<dyn Upstream>| async move { from.page(search).await };
            let depends_on = DependsOn::of_filter(filter);
            let found = self.policy.upstream.read_genes(depends_on, since, read).await?;
            if fits(total.value, search.page, found.value.len())
                && let Some(seen) = total.seen.combined(&found.seen)
            {
                return Ok(Read { value: page(found.value), seen });
            }
        }
        self.read_with_total(search, since, priority).await
    }

    /// Reads a page with its total, or waits for a read of another page with the same total, so that
    /// each filter is counted once, also when one change outdates all pages.
    async fn count(
        self: &Arc<Self>,
        search: &GeneSearch,
        since: Option<ReadOrder>,
        priority: Priority,
    ) -> Result<FlightOutcome<PageResult>, TaskPanicked> {
        let (log, filter) = (&self.policy.upstream.log, &search.filter);
        let may_share = |count: &ReadStart| log.may_share(DependsOn::of_filter(filter), count);
        // Only reads that the limiter treats alike share one.
        let key = (filter.clone(), priority, is_deep(search));
        let count = self.counts.run_if(&key, log.read_start(), may_share, || {
            let (loader, search) = (Arc::clone(self), search.clone());
            async move { loader.read_with_total(&search, since, priority).await.map(Arc::new) }
        });
        count.await
    }

    /// Reads a page together with its total.
    async fn read_with_total(
        &self,
        search: &GeneSearch,
        since: Option<ReadOrder>,
        priority: Priority,
    ) -> Result<Read<GenePage>, ReadError> {
        let _permit = self.limiter.admit(priority, is_deep(search)).await?;
        let read = |from: Arc<dyn Upstream>| async move { from.search(search).await };
        let depends_on = DependsOn::of_filter(&search.filter);
        let found = self.policy.upstream.read_genes(depends_on, since, read).await?;
        let total = Read { value: found.value.total, seen: found.seen.clone() };
        self.policy.local.put_total(&search.filter, total);
        Ok(found)
    }

    /// A total that is current, and young enough that an entry made with it stays fresh for half of
    /// the usual time.
    fn known_total(&self, filter: &GeneFilter) -> Option<Arc<Read<Count>>> {
        let policy = &self.policy;
        let total = policy.local.totals.get(filter)?;
        let now = BootInstant::now();
        let is_young = now.since(total.seen.began) < policy.search.fresh / 2;
        let currency = policy.upstream.log.currency(DependsOn::of_filter(filter), &total.seen, now);
        (is_young && currency == Currency::Confirmed).then_some(total)
    }
}

fn is_deep(search: &GeneSearch) -> bool {
    search.page.offset() > DEEP_OFFSET
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
