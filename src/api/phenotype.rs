//! `GET /v1/genes/{id}/phenotype`

use poem_openapi::OpenApi;

use super::error::ApiError;
use super::model::GenePhenotype;
use super::query::{IfNoneMatch, Path};
use super::reply::Reply;
use super::security::NeedsApiKey;
use super::tags::Tag;
use crate::cache::ReadThrough;
use crate::registry::Request;

/// One gene's phenotype.
pub(super) struct Phenotypes(pub(super) ReadThrough);

#[OpenApi]
impl Phenotypes {
    /// Fetch a gene's public phenotype
    ///
    /// What the gene takes and gives, how to install it and what it needs.
    #[oai(
        path = "/v1/genes/:id/phenotype",
        method = "get",
        operation_id = "getGenePhenotype",
        tag = "Tag::Nonstandard"
    )]
    async fn gene_phenotype(
        &self,
        _key: NeedsApiKey,
        /// The gene's id: a UUID of 8-4-4-4-12 hexadecimal digits, in any case.
        id: Path,
        /// Entity tags of answers that you have. If one of them is this answer's, you get 304.
        #[oai(name = "If-None-Match")]
        _has: IfNoneMatch,
    ) -> poem::Result<Reply<GenePhenotype>> {
        let served = self.0.get(&Request::Phenotype(id.0)).await.map_err(ApiError::from)?;
        Ok(served.into())
    }
}
