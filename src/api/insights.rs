//! `GET /v1/arena/insights`

use poem_openapi::OpenApi;

use super::api_key_scheme::ApiKeyScheme;
use super::error::ApiError;
use super::model::ArenaInsights;
use super::parameters::KnownTags;
use super::reply::{ReadReply, UnfinishedReply};
use super::tags::Tag;
use crate::cache::ReadThrough;
use crate::http::parameter::{Header, Query};
use crate::http::security::Secured;
use crate::registry::{DomainName, Request};

/// The evolution-health metrics of a domain.
pub(super) struct Insights(pub(super) ReadThrough);

#[OpenApi]
impl Insights {
    /// Fetch evolution-health metrics of a domain
    ///
    /// A domain exists when it has a published gene; any other is `NOT_FOUND`.
    #[oai(
        path = "/v1/arena/insights",
        method = "get",
        operation_id = "getArenaInsights",
        tag = "Tag::Nonstandard"
    )]
    async fn arena_insights(
        &self,
        _key: Secured<ApiKeyScheme>,
        /// The domain, matched exactly.
        domain: Query<DomainName>,
        /// Entity tags of responses that you have. If one of them is current, the response is 304.
        #[oai(name = "If-None-Match")]
        _known: Header<KnownTags>,
    ) -> poem::Result<ReadReply<ArenaInsights>> {
        let served = self.0.get(&Request::Insights(domain.0)).await.map_err(ApiError::from)?;
        Ok(ReadReply::new(UnfinishedReply(served)))
    }
}
