//! The parameters of the operations: how their values are parsed and described.

use poem::{Request, Result};
use poem_openapi::registry::{MetaParamIn, MetaSchema, Registry};
use poem_openapi::types::Type;

use super::error::ApiError;
use super::model;
use crate::http::document::integer;
use crate::http::error::InvalidParameter;
use crate::http::parameter::{ParameterValue, decoded_segment, digits};
use crate::registry::{DomainName, Fidelity, GeneId, PageLimit, PageOffset, Sort};

impl ParameterValue for GeneId {
    const IN: MetaParamIn = MetaParamIn::Path;
    const REQUIRED: bool = true;
    const ALLOWED: &'static str = "a UUID of 8-4-4-4-12 hexadecimal digits";

    fn schema() -> MetaSchema {
        MetaSchema::new_with_format("string", "uuid")
    }

    fn parse(given: Option<&str>) -> Option<Self> {
        given?.parse().ok()
    }

    /// The framework numbers the parameters of a path, so `id` is named here.
    fn of(request: &Request, _: &str) -> Result<Self> {
        let raw = raw_id(request.uri().path());
        let decoded = decoded_segment(raw);
        let given = decoded.as_deref().unwrap_or(raw);
        let invalid = || InvalidParameter::new("id", Self::ALLOWED, given);
        Ok(Self::parse(Some(given)).ok_or_else(|| ApiError::InvalidId(invalid()))?)
    }
}

/// The id as it was sent in `/v1/genes/{id}/phenotype`. The framework's own path parameters are
/// already decoded, so decoding them again would be wrong, and they are absent for invalid UTF-8.
fn raw_id(path: &str) -> &str {
    path.split('/').nth(3).unwrap_or_default()
}

/// An optional filter; an empty value counts as not given.
impl ParameterValue for Option<DomainName> {
    const ALLOWED: &'static str = "0 to 255 characters without control characters";

    fn schema() -> MetaSchema {
        domain_schema(0)
    }

    fn parse(given: Option<&str>) -> Option<Self> {
        match given {
            None | Some("") => Some(None),
            Some(text) => text.parse().ok().map(Some),
        }
    }
}

impl ParameterValue for DomainName {
    const REQUIRED: bool = true;
    const ALLOWED: &'static str = "1 to 255 characters without control characters";

    fn schema() -> MetaSchema {
        domain_schema(1)
    }

    fn parse(given: Option<&str>) -> Option<Self> {
        given?.parse().ok()
    }
}

/// [`super::document`] adds that control characters are forbidden.
fn domain_schema(min_length: usize) -> MetaSchema {
    MetaSchema {
        min_length: Some(min_length),
        max_length: Some(DomainName::MAX_CHARS),
        ..MetaSchema::new("string")
    }
}

impl ParameterValue for Option<Fidelity> {
    const ALLOWED: &'static str = "one of Wrapped, Hybrid, Native";

    fn schema() -> MetaSchema {
        MetaSchema { all_of: vec![model::Fidelity::schema_ref()], ..MetaSchema::ANY }
    }

    fn register(registry: &mut Registry) {
        model::Fidelity::register(registry);
    }

    fn parse(given: Option<&str>) -> Option<Self> {
        given.map_or(Some(None), |text| text.parse().ok().map(Some))
    }
}

impl ParameterValue for Sort {
    const ALLOWED: &'static str = "one of fitness, reputation, downloads";

    fn schema() -> MetaSchema {
        MetaSchema { all_of: vec![model::GeneOrder::schema_ref()], ..MetaSchema::ANY }
    }

    fn register(registry: &mut Registry) {
        model::GeneOrder::register(registry);
    }

    fn parse(given: Option<&str>) -> Option<Self> {
        given.map_or(Some(Self::default()), |text| text.parse().ok())
    }
}

impl ParameterValue for PageLimit {
    const ALLOWED: &'static str = "an integer from 1 to 50";

    fn schema() -> MetaSchema {
        let default = Some(Self::default().get().into());
        MetaSchema { default, ..integer(1, Self::MAX.into()) }
    }

    fn parse(given: Option<&str>) -> Option<Self> {
        given.map_or(Some(Self::default()), |text| Self::new(digits(text)?))
    }
}

impl ParameterValue for PageOffset {
    const ALLOWED: &'static str = "an integer from 0 to 2147483647";

    fn schema() -> MetaSchema {
        MetaSchema { default: Some(0.into()), ..integer(0, Self::MAX) }
    }

    fn parse(given: Option<&str>) -> Option<Self> {
        given.map_or(Some(Self::default()), |text| Self::new(digits(text)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::parameter::parse_query;

    fn limit(query: &str) -> Result<u8, String> {
        let limit = parse_query::<PageLimit>(query, "limit").map(PageLimit::get);
        limit.map_err(|error| error.to_string())
    }

    #[test]
    fn values_outside_the_range_are_refused_never_clamped() {
        assert_eq!(limit(""), Ok(20));
        assert_eq!(limit("limit=50&other=%zz"), Ok(50));
        assert_eq!(limit("limit=0050"), Ok(50));
        for wrong in ["0", "51", "+5", "-1", "5.0", "", "٥", "1e1", " 5", "99999999999999999999"] {
            let refused = limit(&format!("limit={wrong}")).expect_err(wrong);
            assert!(
                refused.starts_with("limit must be an integer from 1 to 50; given: "),
                "{refused}"
            );
        }
    }

    #[test]
    fn a_parameter_given_twice_is_refused_escaped_names_too() {
        for twice in ["limit=5&limit=5", "limit=5&li%6Dit=6", "limit&limit"] {
            let refused = limit(twice).expect_err(twice);
            assert_eq!(refused, "limit must be given once; given more than once");
        }
        assert_eq!(limit("li%6Dit=6"), Ok(6));
        assert_eq!(limit("LIMIT=7"), Ok(20), "names are matched exactly");
    }

    #[test]
    fn domains_are_decoded_strictly() {
        let domain =
            |query: &str| parse_query::<DomainName>(query, "domain").map(|d| d.as_str().to_owned());
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
        let domain = parse_query::<Option<DomainName>>("domain=", "domain");
        assert_eq!(domain.ok(), Some(None));
        assert!(parse_query::<Option<Fidelity>>("fidelity=", "fidelity").is_err());
        assert!(parse_query::<Sort>("sort=", "sort").is_err());
    }
}
