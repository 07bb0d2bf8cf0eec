//! The reads themselves: where there is room for them, and what pages take from totals that are
//! known.

use std::sync::Arc;

use super::entry::Entry;
use super::load::{Loader, NotRead};
use super::read_limiter::Priority;
use super::response_body::ResponseBody;
use super::total::{self, Total};
use crate::registry::{Count, GeneFilter, GenePage, GeneSearch, GeneSummary, Request, Timestamp};
use crate::upstream::{DependsOn, ReadStamp, UpstreamError};

/// Pages that skip more than this walk deep, and are read a few at a time.
const DEEP: u32 = 1000;

/// What a read found.
pub(super) enum ReadOutcome {
    Entry(Entry),
    Nothing(ReadStamp),
}

impl Loader {
    /// The answer, later than `since`, read from the upstream where there is room for that.
    pub(super) async fn read(
        &self,
        request: &Request,
        since: Option<Timestamp>,
        priority: Priority,
    ) -> Result<ReadOutcome, NotRead> {
        let is_deep = match request {
            Request::Search(search) => {
                if let Some(total) = self.known_total(&search.filter)
                    && total::is_past(total.count, search.page)
                {
                    return Ok(page(request, search, Vec::new(), total.count, total.seen.clone()));
                }
                search.page.offset() > DEEP
            }
            Request::Phenotype(_) | Request::Insights(_) => false,
        };
        let _place = self.read_limiter.admit(priority, is_deep).await?;
        let (answer, seen) = match request {
            Request::Search(search) => return Ok(self.read_page(request, search, since).await?),
            Request::Phenotype(id) => {
                let read = self.upstream.phenotype(*id, since).await?;
                (read.value.map(|value| ResponseBody::of(&value)), read.seen)
            }
            Request::Insights(domain) => {
                let read = self.upstream.insights(domain, since).await?;
                (read.value.map(|value| ResponseBody::of(&value)), read.seen)
            }
        };
        Ok(match answer {
            Some(answer) => ReadOutcome::Entry(Entry::new(request, answer, seen)),
            None => ReadOutcome::Nothing(seen),
        })
    }

    /// A page, with its total where that is not known, or no longer fits.
    async fn read_page(
        &self,
        request: &Request,
        search: &GeneSearch,
        since: Option<Timestamp>,
    ) -> Result<ReadOutcome, UpstreamError> {
        if let Some(known) = self.known_total(&search.filter) {
            // No page is of an earlier time than its total.
            let since = since.max(Some(known.seen.read_at));
            let read = self.upstream.page(search, since).await?;
            if total::fits(known.count, search.page, read.value.len()) {
                let seen = known.seen.earlier(&read.seen).clone();
                return Ok(page(request, search, read.value, known.count, seen));
            }
        }
        let read = self.upstream.search(search, since).await?;
        let count = read.value.total;
        self.local.put_total(&search.filter, Total { count, seen: read.seen.clone() });
        Ok(page(request, search, read.value.data, count, read.seen))
    }

    /// A total that is current, and young enough for what is made with it to live a while.
    fn known_total(&self, filter: &GeneFilter) -> Option<Arc<Total>> {
        let total = self.local.total(filter)?;
        let young = self.age(&total.seen) < self.search.fresh / 2;
        (young && self.upstream.is_current(DependsOn::of_filter(filter), &total.seen))
            .then_some(total)
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
