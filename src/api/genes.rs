//! `GET /v1/genes`
#![expect(clippy::too_many_arguments, reason = "the framework wants each parameter as one")]

use poem_openapi::OpenApi;

use super::error::ApiError;
use super::model::GenePage;
use super::query::{IfNoneMatch, Limit, Offset, Query};
use super::reply::Reply;
use super::security::NeedsApiKey;
use super::tags::Tag;
use crate::cache::ReadThrough;
use crate::registry::{
    DomainName, Fidelity, GeneFilter, GeneSearch, InvalidPage, Page, Request, Sort,
};

/// The search.
pub(super) struct Genes(pub(super) ReadThrough);

#[OpenApi]
impl Genes {
    /// Search and rank genes
    ///
    /// Genes by `sort`, descending by the value shown and then ascending by `id`. On an
    /// unchanged registry, pages never overlap or leave a gap. The header `Link` leads to the
    /// pages around the one asked for.
    #[oai(
        path = "/v1/genes",
        method = "get",
        operation_id = "searchGenes",
        tag = "Tag::Nonstandard"
    )]
    async fn search_genes(
        &self,
        _key: NeedsApiKey,
        /// Only genes of this domain, matched exactly. Empty is as if absent.
        domain: Query<Option<DomainName>>,
        /// Only genes of this fidelity.
        fidelity: Query<Option<Fidelity>>,
        /// What genes are ranked by.
        sort: Query<Sort>,
        /// Genes on a page.
        limit: Query<Limit>,
        /// Genes skipped. Past the end, `data` is empty and `total` still right.
        offset: Query<Offset>,
        /// Entity tags of answers that you have. If one of them is this answer's, you get 304.
        #[oai(name = "If-None-Match")]
        _has: IfNoneMatch,
    ) -> poem::Result<Reply<GenePage>> {
        let filter = GeneFilter { domain: domain.0, fidelity: fidelity.0 };
        let page = Page::new(limit.0.0, offset.0.0).map_err(unlikely)?;
        let request = Request::Search(GeneSearch { filter, sort: sort.0, page });
        let served = self.0.get(&request).await.map_err(ApiError::from)?;
        Ok(served.into())
    }
}

/// The parameters have been held against the same bounds one by one.
fn unlikely(error: InvalidPage) -> ApiError {
    ApiError::Parameter(error.to_string())
}
