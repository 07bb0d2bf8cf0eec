//! The security scheme, for the document alone: [`super::guard`] checks keys before any
//! parameter is looked at.

use poem::{Request, RequestBody, Result};
use poem_openapi::registry::{MetaSecurityScheme, Registry};
use poem_openapi::{ApiExtractor, ApiExtractorType, ExtractParamOptions};

/// Declares that an operation needs an API key.
pub(super) struct NeedsApiKey;

/// The scheme's name in the document.
pub(super) const SCHEME: &str = "ApiKey";

impl<'a> ApiExtractor<'a> for NeedsApiKey {
    const TYPES: &'static [ApiExtractorType] = &[ApiExtractorType::SecurityScheme];

    type ParamType = ();
    type ParamRawType = ();

    fn register(registry: &mut Registry) {
        registry.create_security_scheme(
            SCHEME,
            MetaSecurityScheme {
                ty: "apiKey",
                description: Some("An API key with the scope `read`."),
                name: Some("X-API-Key"),
                key_in: Some("header"),
                scheme: None,
                bearer_format: None,
                flows: None,
                openid_connect_url: None,
            },
        );
    }

    fn security_schemes() -> Vec<&'static str> {
        vec![SCHEME]
    }

    async fn from_request(
        _: &'a Request,
        _: &mut RequestBody,
        _: ExtractParamOptions<()>,
    ) -> Result<Self> {
        Ok(Self)
    }
}
