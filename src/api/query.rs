//! Parameters: parsed from the raw query once, described in the document by the same types.
//!
//! The framework's own extractors take the first of two values silently and decode bad UTF-8
//! lossily; here both are errors that name the parameter. Unknown parameters are ignored.

use poem::{Request, RequestBody, Result};
use poem_openapi::registry::{MetaParamIn, MetaSchema, MetaSchemaRef, Registry};
use poem_openapi::{ApiExtractor, ApiExtractorType, ExtractParamOptions};
use serde_json::Value;

use super::error::ApiError;
use super::raw_query::{decoded, is_named, pairs};
use crate::registry::{DomainName, Fidelity, GeneId, Page, Sort};

/// A query parameter of type `T`.
pub(crate) struct Query<T>(pub(crate) T);

/// A type that a query parameter can have.
pub(crate) trait QueryValue: Sized + Send {
    /// Whether the parameter must be given.
    const REQUIRED: bool = false;

    /// What is allowed, as text that follows "must be".
    const ALLOWED: &'static str;

    /// What is allowed, for the document.
    fn schema() -> MetaSchema;

    /// The value of what was given; `None` when that is not allowed.
    fn parse(given: Option<&str>) -> Option<Self>;
}

impl<'a, T: QueryValue> ApiExtractor<'a> for Query<T> {
    const TYPES: &'static [ApiExtractorType] = &[ApiExtractorType::Parameter];
    const PARAM_IS_REQUIRED: bool = T::REQUIRED;

    type ParamType = ();
    type ParamRawType = ();

    fn register(_: &mut Registry) {}

    fn param_in() -> Option<MetaParamIn> {
        Some(MetaParamIn::Query)
    }

    fn param_schema_ref() -> Option<MetaSchemaRef> {
        Some(MetaSchemaRef::Inline(Box::new(T::schema())))
    }

    async fn from_request(
        request: &'a Request,
        _: &mut RequestBody,
        options: ExtractParamOptions<()>,
    ) -> Result<Self> {
        let query = request.uri().query().unwrap_or_default();
        Ok(parse_parameter(query, options.name).map(Self)?)
    }
}

pub(super) fn parse_parameter<T: QueryValue>(query: &str, name: &str) -> Result<T, ApiError> {
    let refused = |given: &str| ApiError::parameter(name, T::ALLOWED, given);
    let mut values =
        pairs(query).filter(|(given, _)| is_named(given, name)).map(|(_, value)| value);
    let Some(raw) = values.next() else {
        return T::parse(None)
            .ok_or_else(|| ApiError::Parameter(format!("{name} is required: {}", T::ALLOWED)));
    };
    if values.next().is_some() {
        return Err(ApiError::Parameter(format!("{name} must be given once; given more often")));
    }
    let given = decoded(raw).ok_or_else(|| refused(raw))?;
    T::parse(Some(&given)).ok_or_else(|| refused(&given))
}

/// `If-None-Match`, for the document alone: [`super::conditional`] compares it, once the answer
/// is there.
pub(super) struct IfNoneMatch;

impl<'a> ApiExtractor<'a> for IfNoneMatch {
    const TYPES: &'static [ApiExtractorType] = &[ApiExtractorType::Parameter];

    type ParamType = ();
    type ParamRawType = ();

    fn register(_: &mut Registry) {}

    fn param_in() -> Option<MetaParamIn> {
        Some(MetaParamIn::Header)
    }

    fn param_schema_ref() -> Option<MetaSchemaRef> {
        Some(MetaSchemaRef::Inline(Box::new(MetaSchema::new("string"))))
    }

    async fn from_request(
        _: &'a Request,
        _: &mut RequestBody,
        _: ExtractParamOptions<()>,
    ) -> Result<Self> {
        Ok(Self)
    }
}

/// The path's gene id. The framework's macro wants this name.
pub(super) struct Path(pub(super) GeneId);

impl<'a> ApiExtractor<'a> for Path {
    const TYPES: &'static [ApiExtractorType] = &[ApiExtractorType::Parameter];
    const PARAM_IS_REQUIRED: bool = true;

    type ParamType = ();
    type ParamRawType = ();

    fn register(_: &mut Registry) {}

    fn param_in() -> Option<MetaParamIn> {
        Some(MetaParamIn::Path)
    }

    fn param_schema_ref() -> Option<MetaSchemaRef> {
        const UUID: &str =
            "^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$";
        let schema = MetaSchema {
            pattern: Some(UUID.to_owned()),
            min_length: Some(36),
            max_length: Some(36),
            ..MetaSchema::new_with_format("string", "uuid")
        };
        Some(MetaSchemaRef::Inline(Box::new(schema)))
    }

    async fn from_request(
        request: &'a Request,
        _: &mut RequestBody,
        _: ExtractParamOptions<()>,
    ) -> Result<Self> {
        let raw = raw_id(request.uri().path());
        // A plus is a plus in a path, and no part of a UUID.
        let given = if raw.contains('+') { None } else { decoded(raw) };
        let id = given.as_deref().and_then(|given| given.parse().ok());
        let shown = given.as_deref().unwrap_or(raw);
        Ok(id.map(Self).ok_or_else(|| ApiError::invalid_id(shown))?)
    }
}

/// The id as it stands in `/v1/genes/{id}/phenotype`. The framework's own path parameters are
/// decoded already (a second time would be once too often), and absent for bad UTF-8.
fn raw_id(path: &str) -> &str {
    path.split('/').nth(3).unwrap_or_default()
}

/// An optional domain to filter by; empty is as if absent.
impl QueryValue for Option<DomainName> {
    const ALLOWED: &'static str = "0 to 255 characters without control characters";

    fn schema() -> MetaSchema {
        MetaSchema { min_length: Some(0), ..domain_schema(r"^[^\u0000-\u001F\u007F-\u009F]*$") }
    }

    fn parse(given: Option<&str>) -> Option<Self> {
        match given {
            None | Some("") => Some(None),
            Some(text) => text.parse().ok().map(Some),
        }
    }
}

impl QueryValue for DomainName {
    const REQUIRED: bool = true;
    const ALLOWED: &'static str = "1 to 255 characters without control characters";

    fn schema() -> MetaSchema {
        MetaSchema { min_length: Some(1), ..domain_schema(r"^[^\u0000-\u001F\u007F-\u009F]+$") }
    }

    fn parse(given: Option<&str>) -> Option<Self> {
        given?.parse().ok()
    }
}

fn domain_schema(pattern: &str) -> MetaSchema {
    MetaSchema {
        max_length: Some(DomainName::MAX_CHARS),
        pattern: Some(pattern.to_owned()),
        ..MetaSchema::new("string")
    }
}

impl QueryValue for Option<Fidelity> {
    const ALLOWED: &'static str = "one of Wrapped, Hybrid, Native";

    fn schema() -> MetaSchema {
        let enum_items = Fidelity::ALL.map(|fidelity| fidelity.as_str().into()).to_vec();
        MetaSchema { enum_items, ..MetaSchema::new("string") }
    }

    fn parse(given: Option<&str>) -> Option<Self> {
        given.map_or(Some(None), |text| text.parse().ok().map(Some))
    }
}

impl QueryValue for Sort {
    const ALLOWED: &'static str = "one of fitness, reputation, downloads";

    fn schema() -> MetaSchema {
        MetaSchema {
            enum_items: Self::ALL.map(|sort| sort.as_str().into()).to_vec(),
            default: Some(Self::default().as_str().into()),
            ..MetaSchema::new("string")
        }
    }

    fn parse(given: Option<&str>) -> Option<Self> {
        given.map_or(Some(Self::default()), |text| text.parse().ok())
    }
}

/// Genes on a page.
pub(super) struct Limit(pub(super) u64);

impl QueryValue for Limit {
    const ALLOWED: &'static str = "an integer of 1 to 50";

    fn schema() -> MetaSchema {
        integer_schema(1, Page::MAX_LIMIT.into(), Page::DEFAULT_LIMIT.into())
    }

    fn parse(given: Option<&str>) -> Option<Self> {
        let limit = given.map_or(Some(Page::DEFAULT_LIMIT.into()), digits)?;
        Page::new(limit, 0).is_ok().then_some(Self(limit))
    }
}

/// Genes skipped.
pub(super) struct Offset(pub(super) u64);

impl QueryValue for Offset {
    const ALLOWED: &'static str = "an integer of 0 to 2147483647";

    fn schema() -> MetaSchema {
        integer_schema(0, Page::MAX_OFFSET, 0)
    }

    fn parse(given: Option<&str>) -> Option<Self> {
        let offset = given.map_or(Some(0), digits)?;
        Page::new(1, offset).is_ok().then_some(Self(offset))
    }
}

/// ASCII digits only: the standard parser would also take a plus sign.
fn digits(text: &str) -> Option<u64> {
    let only_digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    only_digits.then(|| text.parse().ok()).flatten()
}

fn integer_schema(minimum: u32, maximum: u32, default: u32) -> MetaSchema {
    MetaSchema {
        minimum: Some(minimum.into()),
        maximum: Some(maximum.into()),
        default: Some(Value::from(default)),
        ..MetaSchema::new_with_format("integer", "int32")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(query: &str) -> Result<u64, String> {
        parse_parameter::<Limit>(query, "limit").map(|l| l.0).map_err(|error| error.to_string())
    }

    #[test]
    fn values_outside_are_refused_never_clamped() {
        assert_eq!(limit(""), Ok(20));
        assert_eq!(limit("limit=50&other=%zz"), Ok(50));
        assert_eq!(limit("limit=0050"), Ok(50));
        for wrong in ["0", "51", "+5", "-1", "5.0", "", "٥", "1e1", " 5", "99999999999999999999"] {
            let refused = limit(&format!("limit={wrong}")).expect_err(wrong);
            assert!(
                refused.starts_with("limit must be an integer of 1 to 50; given: "),
                "{refused}"
            );
        }
    }

    #[test]
    fn a_parameter_given_twice_is_refused_escaped_names_too() {
        for twice in ["limit=5&limit=5", "limit=5&li%6Dit=6", "limit&limit"] {
            let refused = limit(twice).expect_err(twice);
            assert_eq!(refused, "limit must be given once; given more often");
        }
        assert_eq!(limit("li%6Dit=6"), Ok(6));
        assert_eq!(limit("LIMIT=7"), Ok(20), "names are matched exactly");
    }

    #[test]
    fn domains_are_decoded_strictly() {
        let domain = |query: &str| {
            parse_parameter::<DomainName>(query, "domain").map(|d| d.as_str().to_owned())
        };
        assert_eq!(domain("domain=a%2Eb+c%25").ok().as_deref(), Some("a.b c%"));
        assert_eq!(domain("domain=a=b").ok().as_deref(), Some("a=b"));
        for wrong in
            ["domain=%", "domain=%4", "domain=%zz", "domain=%ff", "domain=%00", "domain=a%0Ab"]
        {
            assert!(domain(wrong).is_err(), "{wrong}");
        }
        let error = |query| domain(query).expect_err(query).to_string();
        assert_eq!(
            error("x=1"),
            "domain is required: 1 to 255 characters without control characters"
        );
        assert!(error("domain=").ends_with(r#"; given: """#));
    }

    #[test]
    fn an_empty_domain_filters_nothing_but_an_empty_fidelity_is_refused() {
        let domain = parse_parameter::<Option<DomainName>>("domain=", "domain");
        assert_eq!(domain.ok(), Some(None));
        assert!(parse_parameter::<Option<Fidelity>>("fidelity=", "fidelity").is_err());
        assert!(parse_parameter::<Sort>("sort=", "sort").is_err());
    }
}
