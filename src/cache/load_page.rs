//! Loads of pages: what they take from totals that are known, and how many may walk deep.

use std::sync::Arc;

use tokio::sync::SemaphorePermit;
use tokio::time::timeout;

use super::answer::Answer;
use super::entry::Entry;
use super::load::{Found, Loader};
use super::total::{self, Total};
use crate::registry::{Count, GeneFilter, GenePage, GeneSearch, Request};
use crate::upstream::{Concern, UpstreamError};

/// Pages that skip more than this walk deep, and are read a few at a time.
const DEEP: u32 = 1000;

/// Deep walks at a time.
pub(super) const DEEP_WALKS: usize = 2;

impl Loader {
    /// A page, with its total where that is not known, or no longer fits.
    pub(super) async fn read_page(
        &self,
        request: &Request,
        search: &GeneSearch,
    ) -> Result<Found, UpstreamError> {
        let entry = |data, total: Count, seen| {
            let (limit, offset) = (search.page.limit(), search.page.offset());
            let page = GenePage { data, total, limit, offset };
            Found::Answer(Entry::new(request, Answer::page(search, &page), seen))
        };
        let known = self.known_total(&search.filter);
        if let Some(known) = &known
            && total::is_past(known.count, search.page)
        {
            return Ok(entry(Vec::new(), known.count, known.seen.clone()));
        }
        let _place = self.place(search).await?;
        if let Some(known) = known {
            let page = self.upstream.page(search).await?;
            if total::fits(known.count, search.page, page.value.len()) {
                let seen = known.seen.earlier(&page.seen).clone();
                return Ok(entry(page.value, known.count, seen));
            }
        }
        let read = self.upstream.search(search).await?;
        let count = read.value.total;
        self.local.put_total(&search.filter, Total { count, seen: read.seen.clone() });
        Ok(entry(read.value.data, count, read.seen))
    }

    /// A total that is current, and young enough for what is made with it to live a while.
    fn known_total(&self, filter: &GeneFilter) -> Option<Arc<Total>> {
        let total = self.local.total(filter)?;
        let young = self.age(&total.seen) < self.search.fresh / 2;
        (young && self.upstream.is_current(of_filter(filter), &total.seen)).then_some(total)
    }

    /// Deep walks are long: so many at a time, so that they can't take the whole pool.
    async fn place(
        &self,
        search: &GeneSearch,
    ) -> Result<Option<SemaphorePermit<'_>>, UpstreamError> {
        if search.page.offset() <= DEEP {
            return Ok(None);
        }
        match timeout(self.wait, self.deep_walks.acquire()).await {
            Ok(Ok(place)) => Ok(Some(place)),
            Ok(Err(_)) | Err(_) => Err(UpstreamError::Timeout),
        }
    }
}

pub(super) fn of_filter(filter: &GeneFilter) -> Concern<'_> {
    filter.domain.as_ref().map_or(Concern::Catalogue, Concern::Domain)
}
