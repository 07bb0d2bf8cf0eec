//! Bodies of requests: JSON objects, read field by field. What is wrong is named by the field and
//! never repeated, for people paste secrets by mistake.

use std::fmt;
use std::time::Duration;

use poem::http::{HeaderMap, header};
use poem::{Request, RequestBody, Result};
use poem_openapi::registry::{MetaMediaType, MetaRequest, Registry};
use poem_openapi::types::Type;
use poem_openapi::{ApiExtractor, ApiExtractorType, ExtractParamOptions};
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::{Map, Value};

use super::error::ControlError;
use crate::keys::key_rules::EXPIRES_BEFORE;
use crate::registry::Timestamp;

const MAX_BYTES: usize = 16 * 1024;

/// For the whole of a body to come.
const PATIENCE: Duration = Duration::from_secs(10);

/// A body that the document describes by `T`.
pub(super) struct Body<T: FromFields>(pub(super) T::Read);

/// A type that a body can have.
pub(super) trait FromFields: Type {
    /// What it is read into.
    type Read: Send;

    /// The fields that it can have.
    const FIELDS: &'static [&'static str];

    /// The body with these fields, none of them unknown.
    fn from_fields(fields: &Fields) -> Result<Self::Read, ControlError>;
}

impl<'a, T: FromFields> ApiExtractor<'a> for Body<T> {
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
            return Err(ControlError::NotJson.into());
        }
        let body = body.take().map_err(|_| ControlError::Internal)?;
        let bytes = tokio::time::timeout(PATIENCE, body.into_bytes_limit(MAX_BYTES)).await;
        let bytes = bytes.map_err(|_elapsed| wrong("must come within 10 s"))?;
        let bytes = bytes.map_err(|_| wrong("must be whole, and 16384 bytes at most"))?;
        Ok(Self(T::from_fields(&fields::<T>(&bytes)?)?))
    }
}

fn fields<T: FromFields>(bytes: &[u8]) -> Result<Fields, ControlError> {
    let not_json = |error: serde_json::Error| {
        let (line, column) = (error.line(), error.column());
        wrong(&format!("must be JSON; it is not at line {line}, column {column}"))
    };
    let value: Value = serde_json::from_slice(bytes).map_err(not_json)?;
    if !value.is_object() {
        return Err(wrong("must be a JSON object"));
    }
    let Pairs(pairs) = serde_json::from_slice(bytes).map_err(not_json)?;
    let mut fields = Map::new();
    for (name, value) in pairs {
        let Some(known) = T::FIELDS.iter().find(|known| **known == name) else {
            let known = T::FIELDS.join(", ");
            return Err(wrong(&format!("has an unknown field; known here: {known}")));
        };
        if fields.insert(name, value).is_some() {
            return Err(ControlError::Parameter(format!("{known} must be given once")));
        }
    }
    Ok(Fields(fields))
}

/// One content type, `application/json`, whatever its parameters.
fn is_json(headers: &HeaderMap) -> bool {
    let mut given = headers.get_all(header::CONTENT_TYPE).iter();
    let (Some(given), None) = (given.next(), given.next()) else { return false };
    let kind = given.to_str().unwrap_or_default().split(';').next().unwrap_or_default();
    kind.trim().eq_ignore_ascii_case("application/json")
}

/// An object's fields as they were given: a map would keep the last of those with the same name.
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

fn wrong(what: &str) -> ControlError {
    ControlError::Parameter(format!("body {what}"))
}

/// The fields of a body. What is null is as if absent.
pub(super) struct Fields(Map<String, Value>);

impl Fields {
    fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name).filter(|value| !value.is_null())
    }

    fn read<T>(
        &self,
        name: &str,
        allowed: &str,
        parse: impl FnOnce(&Value) -> Option<T>,
    ) -> Result<Option<T>, ControlError> {
        let Some(value) = self.get(name) else { return Ok(None) };
        let wrong = || ControlError::Parameter(format!("{name} must be {allowed}"));
        parse(value).map(Some).ok_or_else(wrong)
    }

    /// A text that is allowed.
    pub(super) fn text(
        &self,
        name: &str,
        allowed: &str,
        is_allowed: impl FnOnce(&str) -> bool,
    ) -> Result<Option<String>, ControlError> {
        self.read(name, allowed, |value| {
            value.as_str().filter(|text| is_allowed(text)).map(str::to_owned)
        })
    }

    /// A list of texts that is allowed.
    pub(super) fn texts(
        &self,
        name: &str,
        allowed: &str,
        is_allowed: impl FnOnce(&[String]) -> bool,
    ) -> Result<Option<Vec<String>>, ControlError> {
        self.read(name, allowed, |value| {
            let items = value.as_array()?.iter();
            let texts: Option<Vec<_>> =
                items.map(|item| item.as_str().map(str::to_owned)).collect();
            texts.filter(|texts| is_allowed(texts))
        })
    }

    /// An integer from 0 to `most`.
    pub(super) fn integer(&self, name: &str, most: u32) -> Result<Option<u32>, ControlError> {
        self.read(name, &format!("an integer from 0 to {most}"), |value| {
            value.as_u64().and_then(|number| u32::try_from(number).ok()).filter(|n| *n <= most)
        })
    }

    /// Yes or no; no if it is absent.
    pub(super) fn flag(&self, name: &str) -> Result<bool, ControlError> {
        Ok(self.read(name, "true or false", Value::as_bool)?.unwrap_or_default())
    }

    /// A moment after `now`.
    pub(super) fn future(
        &self,
        name: &str,
        now: Timestamp,
    ) -> Result<Option<Timestamp>, ControlError> {
        self.read(name, "a time to come, such as 2030-01-31T12:00:00Z", |value| {
            value.as_str()?.parse().ok().filter(|at| *at > now && *at < EXPIRES_BEFORE)
        })
    }
}

/// The field must be there.
pub(super) fn required<T>(field: Option<T>, name: &str, allowed: &str) -> Result<T, ControlError> {
    field.ok_or_else(|| ControlError::Parameter(format!("{name} is required: {allowed}")))
}
