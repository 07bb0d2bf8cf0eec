//! `GET /v1/genes/{id}/phenotype`

use poem_openapi::OpenApi;

use super::api_key_scheme::ApiKeyScheme;
use super::error::ApiError;
use super::model::GenePhenotype;
use super::parameters::KnownTags;
use super::reply::{ReadReply, UnfinishedReply};
use super::tags::Tag;
use crate::cache::ReadThrough;
use crate::http::parameter::{Header, Path};
use crate::http::security::Secured;
use crate::registry::{GeneId, Request};

/// One gene's phenotype.
pub(super) struct Phenotypes(pub(super) ReadThrough);

#[OpenApi]
impl Phenotypes {
    /// Fetch a gene's public phenotype
    ///
    /// The gene's input and output, how to install it and what it needs to run.
    #[oai(
        path = "/v1/genes/:id/phenotype",
        method = "get",
        operation_id = "getGenePhenotype",
        tag = "Tag::Nonstandard"
    )]
    async fn gene_phenotype(
        &self,
        _key: Secured<ApiKeyScheme>,
        /// The gene's id: a UUID of 8-4-4-4-12 hexadecimal digits, in any case.
        id: Path<GeneId>,
        /// Entity tags of responses that you have. If one of them is current, the response is 304.
        #[oai(name = "If-None-Match")]
        _known: Header<KnownTags>,
    ) -> poem::Result<ReadReply<GenePhenotype>> {
        let served = self.0.get(&Request::Phenotype(id.0)).await.map_err(ApiError::from)?;
        Ok(ReadReply::new(UnfinishedReply(served)))
    }
}
