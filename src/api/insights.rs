//! `GET /v1/arena/insights`

use poem_openapi::OpenApi;

use super::error::ApiError;
use super::model::ArenaInsights;
use super::query::{IfNoneMatch, Query};
use super::reply::Reply;
use super::security::NeedsApiKey;
use super::tags::Tag;
use crate::cache::ReadThrough;
use crate::registry::{DomainName, Request};

/// The health of a domain's arena.
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
        _key: NeedsApiKey,
        /// The domain, matched exactly.
        domain: Query<DomainName>,
        /// Entity tags of answers that you have. If one of them is this answer's, you get 304.
        #[oai(name = "If-None-Match")]
        _has: IfNoneMatch,
    ) -> poem::Result<Reply<ArenaInsights>> {
        let served = self.0.get(&Request::Insights(domain.0)).await.map_err(ApiError::from)?;
        Ok(served.into())
    }
}
