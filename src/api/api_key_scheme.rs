//! The security scheme of the operations. [`super::access_control`] checks keys.

use poem::{Request, Result};
use poem_openapi::registry::MetaSecurityScheme;

use crate::http::security::{SecurityScheme, scheme};

/// Declares that an operation needs an API key.
pub(super) struct ApiKeyScheme;

impl SecurityScheme for ApiKeyScheme {
    const NAME: &'static str = "ApiKey";

    fn meta() -> MetaSecurityScheme {
        MetaSecurityScheme {
            name: Some("X-API-Key"),
            key_in: Some("header"),
            ..scheme("apiKey", "An API key with the scope `read`.")
        }
    }

    fn of(_: &Request) -> Result<Self> {
        Ok(Self)
    }
}
