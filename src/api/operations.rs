//! The three operations: what each reads from the registry for its parameters.

use poem_openapi::{OpenApi, Tags};

use super::error::ApiError;
use super::model::{ArenaInsights, GenePage, GenePhenotype};
use super::reply::ReadReply;
use crate::cache::ReadThrough;
use crate::http::parameter::{Path, Query};
use crate::registry::{
    DomainName, Fidelity, GeneFilter, GeneId, GeneSearch, Page, PageLimit, PageOffset, Request,
    Sort,
};

/// The operations, which read through this cache.
pub(super) struct PublicOperations(pub(super) ReadThrough);

#[derive(Tags)]
enum Tag {
    /// Nonstandard relative to the protocol specification: these operations belong to one
    /// implementation, Level 1.5.
    #[oai(rename = "nonstandard")]
    Nonstandard,
}

#[OpenApi(tag = "Tag::Nonstandard")]
impl PublicOperations {
    /// Search and rank genes
    ///
    /// Genes are ordered by `sort`, highest first, then by `id`. On an unchanged registry, pages
    /// neither overlap nor leave gaps. The header `Link` leads to the next and previous page.
    #[oai(path = "/v1/genes", method = "get", operation_id = "searchGenes")]
    async fn search_genes(
        &self,
        /// Only genes of this domain, matched exactly. An empty value counts as not given.
        domain: Query<Option<DomainName>>,
        /// Only genes of this fidelity.
        fidelity: Query<Option<Fidelity>>,
        /// The value by which genes are ranked.
        sort: Query<Sort>,
        /// The number of genes on a page.
        limit: Query<PageLimit>,
        /// The number of genes to skip. Past the end, `data` is empty and `total` is still correct.
        offset: Query<PageOffset>,
    ) -> poem::Result<ReadReply<GenePage>> {
        let filter = GeneFilter { domain: domain.0, fidelity: fidelity.0 };
        let page = Page::new(limit.0, offset.0);
        let request = Request::Search(GeneSearch { filter, sort: sort.0, page });
        Ok(self.0.get(&request).await.map(ReadReply::new).map_err(ApiError::from)?)
    }

    /// Fetch a gene's public phenotype
    ///
    /// The gene's input and output, how to install it and what it needs to run.
    #[oai(path = "/v1/genes/:id/phenotype", method = "get", operation_id = "getGenePhenotype")]
    async fn gene_phenotype(
        &self,
        /// The gene's id: a UUID of 8-4-4-4-12 hexadecimal digits, in any case.
        id: Path<GeneId>,
    ) -> poem::Result<ReadReply<GenePhenotype>> {
        let request = Request::Phenotype(id.0);
        Ok(self.0.get(&request).await.map(ReadReply::new).map_err(ApiError::from)?)
    }

    /// Fetch evolution-health metrics of a domain
    ///
    /// A domain exists if it has a published gene; for any other the response is `NOT_FOUND`.
    #[oai(path = "/v1/arena/insights", method = "get", operation_id = "getArenaInsights")]
    async fn arena_insights(
        &self,
        /// The domain, matched exactly.
        domain: Query<DomainName>,
    ) -> poem::Result<ReadReply<ArenaInsights>> {
        let request = Request::Insights(domain.0);
        Ok(self.0.get(&request).await.map(ReadReply::new).map_err(ApiError::from)?)
    }
}
