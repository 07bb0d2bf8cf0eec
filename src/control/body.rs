//! Parses the JSON bodies of requests field by field. Errors name the field and never repeat its
//! value, since people paste secrets by mistake.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use poem::http::{HeaderMap, header};
use poem::{Request, RequestBody, Result};
use poem_openapi::registry::{MetaMediaType, MetaRequest, Registry};
use poem_openapi::types::Type;
use poem_openapi::{ApiExtractor, ApiExtractorType, ExtractParamOptions};
use serde::de::{Deserialize, DeserializeOwned, Deserializer, MapAccess, Visitor};
use serde_json::{Map, Value};

use super::error::ControlApiError;
use crate::http::error::InvalidParameter;

const MAX_BODY_BYTES: usize = 16 * 1024;

/// Timeout for receiving the whole body.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// The body of a request, which the document describes by `T`.
pub(super) struct JsonRequest<T: FromFields>(pub(super) T::Parsed);

/// A type of request bodies.
pub(super) trait FromFields: Type {
    /// The parsed body.
    type Parsed: Send;

    /// The names of its fields.
    const FIELDS: &'static [&'static str];

    /// The body with these fields, all of which are in `FIELDS`.
    fn from_fields(fields: &Fields) -> Result<Self::Parsed, ControlApiError>;
}

impl<'a, T: FromFields> ApiExtractor<'a> for JsonRequest<T> {
    const TYPES: &'static [ApiExtractorType] = &[ApiExtractorType::RequestObject];

    type ParamType = ();
    type ParamRawType = ();

    fn register(registry: &mut Registry) {
        T::register(registry);
    }

    fn request_meta() -> Option<MetaRequest> {
        let content =
            vec![MetaMediaType { content_type: "application/json", schema: T::schema_ref() }];
        Some(MetaRequest { description: None, content, required: true })
    }

    async fn from_request(
        request: &'a Request,
        body: &mut RequestBody,
        _: ExtractParamOptions<()>,
    ) -> Result<Self> {
        if !is_json(request.headers()) {
            return Err(ControlApiError::NotJson.into());
        }
        let body = body.take().map_err(|_| ControlApiError::Internal)?;
        let bytes = tokio::time::timeout(BODY_TIMEOUT, body.into_bytes_limit(MAX_BODY_BYTES)).await;
        let bytes = bytes.map_err(|_elapsed| invalid_body("must arrive within 10 s"))?;
        let bytes = bytes.map_err(|_| invalid_body("must be complete and at most 16384 bytes"))?;
        Ok(Self(T::from_fields(&parse_fields::<T>(&bytes)?)?))
    }
}

fn parse_fields<T: FromFields>(bytes: &[u8]) -> Result<Fields, ControlApiError> {
    let not_an_object = |error: serde_json::Error| {
        let (line, column) = (error.line(), error.column());
        invalid_body(&format!(
            "must be a JSON object; the error is at line {line}, column {column}"
        ))
    };
    let Pairs(pairs) = serde_json::from_slice(bytes).map_err(not_an_object)?;
    let mut fields = Map::new();
    for (name, value) in pairs {
        let Some(known) = T::FIELDS.iter().find(|known| **known == name) else {
            let known = T::FIELDS.join(", ");
            return Err(invalid_body(&format!("has an unknown field; its fields are {known}")));
        };
        if fields.insert(name, value).is_some() {
            return Err(InvalidParameter(format!("{known} must be given once")).into());
        }
    }
    Ok(Fields(fields))
}

/// Whether there is exactly one content type, `application/json` with any parameters.
fn is_json(headers: &HeaderMap) -> bool {
    let mut given = headers.get_all(header::CONTENT_TYPE).iter();
    let (Some(given), None) = (given.next(), given.next()) else { return false };
    let media_type = given.to_str().unwrap_or_default().split(';').next().unwrap_or_default();
    media_type.trim().eq_ignore_ascii_case("application/json")
}

/// All fields of an object; a map would keep only the last of those with the same name.
struct Pairs(Vec<(String, Value)>);

impl<'de> Deserialize<'de> for Pairs {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(PairsVisitor)
    }
}

struct PairsVisitor;

impl<'de> Visitor<'de> for PairsVisitor {
    type Value = Pairs;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Pairs, A::Error> {
        let mut pairs = Vec::new();
        while let Some(pair) = fields.next_entry()? {
            pairs.push(pair);
        }
        Ok(Pairs(pairs))
    }
}

fn invalid_body(problem: &str) -> ControlApiError {
    InvalidParameter(format!("body {problem}")).into()
}

/// A number without a fraction as an integer: JSON Schema takes `30.0` for one, and some clients write
/// all numbers so.
fn without_fraction(value: &Value) -> Cow<'_, Value> {
    match value.as_f64() {
        Some(number)
            if !value.is_i64()
                && number.fract() == 0.0
                && number.abs() <= crate::registry::MAX_SAFE_INTEGER as f64 =>
        {
            Cow::Owned((number as i64).into())
        }
        _ => Cow::Borrowed(value),
    }
}

/// The fields of a body. A null field counts as absent.
pub(super) struct Fields(Map<String, Value>);

impl Fields {
    /// The value of a field; `None` if it is absent.
    ///
    /// # Errors
    /// The value has another type or is not allowed; `allowed` is the text that follows "must be".
    pub(super) fn get<T: DeserializeOwned>(
        &self,
        name: &str,
        allowed: &str,
        is_allowed: impl FnOnce(&T) -> bool,
    ) -> Result<Option<T>, InvalidParameter> {
        let Some(value) = self.0.get(name).filter(|value| !value.is_null()) else {
            return Ok(None);
        };
        let value = T::deserialize(&*without_fraction(value)).ok().filter(is_allowed);
        value.map(Some).ok_or_else(|| InvalidParameter(format!("{name} must be {allowed}")))
    }
}
