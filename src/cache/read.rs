//! Reads from the upstream, bounded by the limiter. Pages of a search reuse a known total, so that
//! paging does not count the matching genes for every page.

use std::sync::Arc;

use thiserror::Error;

use super::entry::Entry;
use super::read_limiter::{Overloaded, Priority, ReadLimiter};
use super::response_body::ResponseBody;
use super::serve_policy::ServePolicy;
use super::total::{self, Total};
use crate::registry::{Count, GeneFilter, GenePage, GeneSearch, GeneSummary, Request};
use crate::upstream::{BootInstant, Currency, DependsOn, ReadOrder, ReadStamp, UpstreamError};

/// Pages with a larger offset than this are deep pages, whose concurrency is bounded separately.
const DEEP_OFFSET: u32 = 1000;

/// The result of a read.
pub(super) enum ReadOutcome {
    Entry(Entry),
    /// The gene or domain does not exist.
    Absent(ReadStamp),
}

/// Why nothing was read.
#[derive(Debug, Error)]
pub(super) enum NotRead {
    /// The upstream failed.
    #[error(transparent)]
    Failed(#[from] UpstreamError),
    /// The read was shed: the upstream was not queried.
    #[error(transparent)]
    Overloaded(#[from] Overloaded),
}

/// Reads from the upstream.
pub(super) struct UpstreamReader {
    pub(super) policy: Arc<ServePolicy>,
    pub(super) limiter: ReadLimiter,
}

impl UpstreamReader {
    /// Reads the entry, in a later state than `since`, once the limiter admits the read.
    pub(super) async fn read(
        &self,
        request: &Request,
        since: Option<ReadOrder>,
        priority: Priority,
    ) -> Result<ReadOutcome, NotRead> {
        let is_deep = match request {
            Request::Search(search) => {
                if let Some(total) = self.known_total(&search.filter)
                    && total::is_past(total.count, search.page)
                {
                    return Ok(page(request, search, Vec::new(), total.count, total.seen.clone()));
                }
                search.page.offset() > DEEP_OFFSET
            }
            Request::Phenotype(_) | Request::Insights(_) => false,
        };
        let _permit = self.limiter.admit(priority, is_deep).await?;
        let upstream = &self.policy.upstream;
        let (body, seen) = match request {
            Request::Search(search) => return Ok(self.read_page(request, search, since).await?),
            Request::Phenotype(id) => {
                let read = upstream.phenotype(*id, since).await?;
                (read.value.map(|value| ResponseBody::of(&value)), read.seen)
            }
            Request::Insights(domain) => {
                let read = upstream.insights(domain, since).await?;
                (read.value.map(|value| ResponseBody::of(&value)), read.seen)
            }
        };
        Ok(match body {
            Some(body) => ReadOutcome::Entry(Entry::new(request, body, seen)),
            None => ReadOutcome::Absent(seen),
        })
    }

    /// Reads a page, and the total if it is unknown or contradicts the page.
    async fn read_page(
        &self,
        request: &Request,
        search: &GeneSearch,
        since: Option<ReadOrder>,
    ) -> Result<ReadOutcome, UpstreamError> {
        let upstream = &self.policy.upstream;
        if let Some(known) = self.known_total(&search.filter) {
            // The page must not be older than its total.
            let since = since.max(Some(known.seen.order()));
            let read = upstream.page(search, since).await?;
            if total::fits(known.count, search.page, read.value.len()) {
                let seen = known.seen.earlier(&read.seen).clone();
                return Ok(page(request, search, read.value, known.count, seen));
            }
        }
        let read = upstream.search(search, since).await?;
        let count = read.value.total;
        let total = Total { count, seen: read.seen.clone() };
        self.policy.local.put_total(&search.filter, total);
        Ok(page(request, search, read.value.data, count, read.seen))
    }

    /// A total that is current, and young enough that an entry made with it stays fresh for half of
    /// the usual time.
    fn known_total(&self, filter: &GeneFilter) -> Option<Arc<Total>> {
        let policy = &self.policy;
        let total = policy.local.total(filter)?;
        let now = BootInstant::now();
        let is_young = now.since(total.seen.began) < policy.search.fresh / 2;
        let currency = policy.upstream.currency(DependsOn::of_filter(filter), &total.seen, now);
        (is_young && currency == Currency::Confirmed).then_some(total)
    }
}

fn page(
    request: &Request,
    search: &GeneSearch,
    data: Vec<GeneSummary>,
    total: Count,
    seen: ReadStamp,
) -> ReadOutcome {
    let (limit, offset) = (search.page.limit(), search.page.offset());
    let page = GenePage { data, total, limit, offset };
    ReadOutcome::Entry(Entry::new(request, ResponseBody::page(search, &page), seen))
}
