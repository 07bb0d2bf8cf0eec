//! Parameters of operations: one type both describes a parameter in the document and parses it.
//!
//! The framework's own extractors silently take the first of two values and decode invalid UTF-8
//! lossily; here both are errors that name the parameter. Unknown parameters are ignored.

use poem::{Request, RequestBody, Result};
use poem_openapi::registry::{MetaParamIn, MetaSchema, MetaSchemaRef, Registry};
use poem_openapi::{ApiExtractor, ApiExtractorType, ExtractParamOptions};

use super::error::InvalidParameter;
use super::raw_query::{decoded, is_named, pairs};

/// A parameter of an operation.
pub(crate) struct Parameter<T>(pub(crate) T);

/// A parameter in the query.
pub(crate) type Query<T> = Parameter<T>;

/// A parameter in the path. The framework's macro recognizes such a parameter by this name.
pub(crate) type Path<T> = Parameter<T>;

/// The type of a parameter's value.
pub(crate) trait ParameterValue: Sized + Send {
    /// Where the parameter is.
    const IN: MetaParamIn = MetaParamIn::Query;

    /// Whether the parameter must be given.
    const REQUIRED: bool = false;

    /// The allowed values, as text that follows "must be".
    const ALLOWED: &'static str;

    /// The allowed values, for the document.
    fn schema() -> MetaSchema;

    /// Adds the schemas that [`Self::schema`] refers to to the document.
    fn register(_: &mut Registry) {}

    /// Parses the decoded text, or chooses the default if none was given; `None` if the value is
    /// not allowed.
    fn parse(given: Option<&str>) -> Option<Self>;

    /// The value of the parameter `name` in a request.
    ///
    /// # Errors
    /// The value is missing or not allowed.
    #[inline]
    fn of(request: &Request, name: &str) -> Result<Self> {
        Ok(parse_query(request.uri().query().unwrap_or_default(), name)?)
    }
}

impl<'a, T: ParameterValue> ApiExtractor<'a> for Parameter<T> {
    const TYPES: &'static [ApiExtractorType] = &[ApiExtractorType::Parameter];
    const PARAM_IS_REQUIRED: bool = T::REQUIRED;

    type ParamType = ();
    type ParamRawType = ();

    fn register(registry: &mut Registry) {
        T::register(registry);
    }

    fn param_in() -> Option<MetaParamIn> {
        Some(T::IN)
    }

    fn param_schema_ref() -> Option<MetaSchemaRef> {
        Some(MetaSchemaRef::Inline(Box::new(T::schema())))
    }

    async fn from_request(
        request: &'a Request,
        _: &mut RequestBody,
        options: ExtractParamOptions<()>,
    ) -> Result<Self> {
        T::of(request, options.name).map(Self)
    }
}

/// The value of the parameter `name` in a query.
///
/// # Errors
/// The parameter is missing though required, given twice, badly encoded or not allowed.
#[inline]
pub(crate) fn parse_query<T: ParameterValue>(
    query: &str,
    name: &str,
) -> Result<T, InvalidParameter> {
    let invalid = |given: &str| InvalidParameter::new(name, T::ALLOWED, given);
    let mut values =
        pairs(query).filter(|(given, _)| is_named(given, name)).map(|(_, value)| value);
    let Some(raw) = values.next() else {
        return T::parse(None).ok_or_else(|| InvalidParameter::missing(name, T::ALLOWED));
    };
    if values.next().is_some() {
        return Err(InvalidParameter(format!("{name} must be given once; given more than once")));
    }
    let given = decoded(raw).ok_or_else(|| invalid(raw))?;
    T::parse(Some(&given)).ok_or_else(|| invalid(&given))
}

/// The number that consists of ASCII digits only; the standard parser would also accept a plus sign.
pub(crate) fn digits(text: &str) -> Option<u64> {
    let only_digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    only_digits.then(|| text.parse().ok()).flatten()
}

/// The percent-decoded text of a path segment, in which a plus sign is not a space; `None` for an
/// invalid escape or invalid UTF-8.
pub(crate) fn decoded_segment(raw: &str) -> Option<std::borrow::Cow<'_, str>> {
    if raw.contains('+') { None } else { decoded(raw) }
}
