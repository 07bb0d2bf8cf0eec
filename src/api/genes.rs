//! `GET /v1/genes`
#![expect(clippy::too_many_arguments, reason = "the framework wants each parameter as one")]

use poem_openapi::OpenApi;

use super::api_key_scheme::ApiKeyScheme;
use super::error::ApiError;
use super::model::GenePage;
use super::parameters::KnownTags;
use super::reply::{ReadReply, UnfinishedReply};
use super::tags::Tag;
use crate::cache::ReadThrough;
use crate::http::parameter::{Header, Query};
use crate::http::security::Secured;
use crate::registry::{
    DomainName, Fidelity, GeneFilter, GeneSearch, Page, PageLimit, PageOffset, Request, Sort,
};

/// The search.
pub(super) struct Genes(pub(super) ReadThrough);

#[OpenApi]
impl Genes {
    /// Search and rank genes
    ///
    /// Genes are ordered by `sort`, highest first, then by `id`. On an unchanged registry, pages
    /// neither overlap nor leave gaps. The header `Link` leads to the next and previous page.
    #[oai(
        path = "/v1/genes",
        method = "get",
        operation_id = "searchGenes",
        tag = "Tag::Nonstandard"
    )]
    async fn search_genes(
        &self,
        _key: Secured<ApiKeyScheme>,
        /// Only genes of this domain, matched exactly. An empty value counts as not given.
        domain: Query<Option<DomainName>>,
        /// Only genes of this fidelity.
        fidelity: Query<Option<Fidelity>>,
        /// The value that genes are ranked by.
        sort: Query<Sort>,
        /// The number of genes on a page.
        limit: Query<PageLimit>,
        /// The number of genes to skip. Past the end, `data` is empty and `total` is still correct.
        offset: Query<PageOffset>,
        /// Entity tags of responses that you have. If one of them is current, the response is 304.
        #[oai(name = "If-None-Match")]
        _known: Header<KnownTags>,
    ) -> poem::Result<ReadReply<GenePage>> {
        let filter = GeneFilter { domain: domain.0, fidelity: fidelity.0 };
        let page = Page::new(limit.0, offset.0);
        let request = Request::Search(GeneSearch { filter, sort: sort.0, page });
        let served = self.0.get(&request).await.map_err(ApiError::from)?;
        Ok(ReadReply::new(UnfinishedReply(served)))
    }
}
