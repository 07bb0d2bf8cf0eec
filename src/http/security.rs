//! Security schemes: how the document says that an operation needs credentials. Middleware checks
//! them before any parameter is parsed.

use poem::{Request, RequestBody, Result};
use poem_openapi::registry::{MetaSecurityScheme, Registry};
use poem_openapi::{ApiExtractor, ApiExtractorType, ExtractParamOptions};

/// What an operation learns of the credentials, which have been checked.
pub(crate) struct Secured<S>(pub(crate) S);

/// A security scheme.
pub(crate) trait SecurityScheme: Sized + Send {
    /// Its name in the document.
    const NAME: &'static str;

    /// Its description in the document.
    fn meta() -> MetaSecurityScheme;

    /// What the middleware left with the request.
    ///
    /// # Errors
    /// The middleware is missing, which is a bug.
    fn of(request: &Request) -> Result<Self>;
}

impl<'a, S: SecurityScheme> ApiExtractor<'a> for Secured<S> {
    const TYPES: &'static [ApiExtractorType] = &[ApiExtractorType::SecurityScheme];

    type ParamType = ();
    type ParamRawType = ();

    fn register(registry: &mut Registry) {
        registry.create_security_scheme(S::NAME, S::meta());
    }

    fn security_schemes() -> Vec<&'static str> {
        vec![S::NAME]
    }

    async fn from_request(
        request: &'a Request,
        _: &mut RequestBody,
        _: ExtractParamOptions<()>,
    ) -> Result<Self> {
        S::of(request).map(Self)
    }
}

/// A scheme of type `kind` of which nothing else is known.
pub(crate) const fn scheme(kind: &'static str, description: &'static str) -> MetaSecurityScheme {
    MetaSecurityScheme {
        ty: kind,
        description: Some(description),
        name: None,
        key_in: None,
        scheme: None,
        bearer_format: None,
        flows: None,
        openid_connect_url: None,
    }
}
