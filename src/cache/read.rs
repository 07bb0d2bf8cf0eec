//! Reads from the upstream, bounded by the limiter. Pages of a search reuse a known total, so that
//! paging does not count the matching genes for every page.

use std::sync::Arc;

use futures_util::future::BoxFuture;

use super::entry::{Entry, ResponseBody};
use super::load::Loader;
use super::read_limiter::Priority;
use super::reply::{Counted, CountedResult, EntryResult, ReadError};
use super::serve_policy::depends_on;
use crate::registry::{Count, GeneCounts, GenePage, GeneSearch, Page, Request};
use crate::sync::FlightOutcome;
use crate::upstream::{DependsOn, Read, ReadOrder, ReadStart, Upstream, UpstreamError};

/// Pages with a larger offset than this are deep pages, whose concurrency is bounded separately.
const DEEP_OFFSET: u32 = 1000;

/// Counting this many genes costs more than asking Redis for the count.
const COSTLY_COUNT: u64 = 1000;

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
            Request::Counts(filter) => {
                let _permit = self.limiter.admit(priority, false).await?;
                let read = |from: Arc<dyn Upstream>| async move { from.count(filter).await };
                let found = upstream.read_genes(depends_on, since, read).await?;
                Ok(found.map(|counts| Some(ResponseBody::of(&counts))))
            }
            Request::Numbers => {
                let _permit = self.limiter.admit(priority, false).await?;
                let read = |from: Arc<dyn Upstream>| async move { from.numbers().await };
                let found = upstream.read_genes(depends_on, since, read).await?;
                Ok(found.map(|numbers| Some(ResponseBody::of(&numbers))))
            }
        }
    }

    /// Reads a page, and its total if that is unknown or contradicts the page.
    async fn read_page(
        self: &Arc<Self>,
        search: &GeneSearch,
        since: Option<ReadOrder>,
        priority: Priority,
    ) -> Result<Read<GenePage>, ReadError> {
        let Counted { counts: counted, page } = self.count(search, since, priority).await?;
        if let Some(page) = page {
            return Ok(Arc::unwrap_or_clone(page));
        }
        let counts = counts_of(&counted)?;
        self.broken_rows.record(&search.filter, counts.broken);
        let page = |data| GenePage::new(search.page, data, counts);
        if is_past(counts.total, search.page) {
            return Ok(Read { value: page(Vec::new()), seen: counted.seen.clone() });
        }
        {
            let _permit = self.limiter.admit(priority, is_deep(search)).await?;
            // The page must not be older than its total.
            let since = since.max(Some(counted.seen.order()));
            let read = |from: Arc<dyn Upstream>| async move { from.page(search).await };
            let depends_on = DependsOn::of_filter(&search.filter);
            let found = self.policy.upstream.read_genes(depends_on, since, read).await?;
            if fits(counts.total, search.page, found.value.len())
                && let Some(seen) = counted.seen.combined(&found.seen)
            {
                return Ok(Read { value: page(found.value), seen });
            }
        }
        Ok(self.read_with_counts(search, since, priority).await?.1)
    }

    /// The counts of a filter. If it is known to match many genes, they are counted once for the whole
    /// fleet, also when one change outdates all pages; otherwise together with this page, or with
    /// another one that this replica reads at the same time.
    async fn count(
        self: &Arc<Self>,
        search: &GeneSearch,
        since: Option<ReadOrder>,
        priority: Priority,
    ) -> CountedResult {
        let (policy, filter) = (&self.policy, &search.filter);
        let request = Request::Counts(filter.clone());
        let known = policy.local.entries.get(&request);
        let mut is_costly = false;
        if let Some(known) = known {
            if policy.is_fresh(&request, &known) {
                return Ok(Counted { counts: known, page: None });
            }
            is_costly = counts_of(&known).is_ok_and(|known| known.total.get() >= COSTLY_COUNT);
        }
        let log = &policy.upstream.log;
        let may_share = |count: &ReadStart| log.may_share(DependsOn::of_filter(filter), count);
        // Only reads that the limiter treats alike share one.
        let key = (filter.clone(), priority, is_deep(search));
        let flight = self.counts.run_if(&key, log.read_start(), may_share, || {
            let (loader, search) = (Arc::clone(self), search.clone());
            async move {
                if is_costly {
                    let (counts, _) = loader.load_counts(request, priority).await?;
                    return Ok(Counted { counts, page: None });
                }
                let (counts, page) = loader.read_with_counts(&search, since, priority).await?;
                Ok(Counted { counts, page: Some(Arc::new(page)) })
            }
        });
        let FlightOutcome { value, joined } = flight.await?;
        let Counted { counts, page } = value?;
        Ok(Counted { counts, page: page.filter(|_| !joined) })
    }

    /// [`Self::load_fresh`] of counts, which a read of a page waits for.
    fn load_counts(
        self: Arc<Self>,
        request: Request,
        priority: Priority,
    ) -> BoxFuture<'static, EntryResult> {
        Box::pin(async move { self.load_fresh(&request, priority).await })
    }

    /// Reads a page together with its counts.
    async fn read_with_counts(
        &self,
        search: &GeneSearch,
        since: Option<ReadOrder>,
        priority: Priority,
    ) -> Result<(Arc<Entry>, Read<GenePage>), ReadError> {
        let _permit = self.limiter.admit(priority, is_deep(search)).await?;
        let read = |from: Arc<dyn Upstream>| async move { from.search(search).await };
        let depends_on = DependsOn::of_filter(&search.filter);
        let page = self.policy.upstream.read_genes(depends_on, since, read).await?;
        let request = Request::Counts(search.filter.clone());
        let body = ResponseBody::of(&page.value.counts());
        let counts = Arc::new(Entry::new(&request, body, page.seen.clone()));
        self.broken_rows.record(&search.filter, page.value.broken);
        self.policy.local.put(&request, &counts);
        Ok((counts, page))
    }
}

fn counts_of(entry: &Entry) -> Result<GeneCounts, UpstreamError> {
    serde_json::from_slice(&entry.body).map_err(|error| UpstreamError::Failed(error.into()))
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
