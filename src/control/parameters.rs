//! The query parameters of the key operations.

use poem_openapi::registry::MetaSchema;

use crate::http::parameter::{QueryValue, digits};

/// The number of keys on a page: 1 to 1000.
pub(super) struct ListLimit(pub(super) u32);

/// The number of keys to skip: 0 to 2147483647.
pub(super) struct ListOffset(pub(super) u32);

/// Whether to use everybody's keys.
pub(super) struct AllKeys(pub(super) bool);

impl ListLimit {
    const DEFAULT: u32 = 100;
    const MAX: u32 = 1000;
}

impl ListOffset {
    const MAX: u32 = i32::MAX.unsigned_abs();
}

fn integer_within(given: &str, minimum: u32, maximum: u32) -> Option<u32> {
    let number = u32::try_from(digits(given)?).ok()?;
    (minimum..=maximum).contains(&number).then_some(number)
}

fn integer_schema(minimum: u32, maximum: u32, default: u32) -> MetaSchema {
    MetaSchema {
        minimum: Some(minimum.into()),
        maximum: Some(maximum.into()),
        default: Some(default.into()),
        ..MetaSchema::new("integer")
    }
}

impl QueryValue for ListLimit {
    const ALLOWED: &'static str = "an integer from 1 to 1000";

    fn schema() -> MetaSchema {
        integer_schema(1, Self::MAX, Self::DEFAULT)
    }

    fn parse(given: Option<&str>) -> Option<Self> {
        given.map_or(Some(Self::DEFAULT), |given| integer_within(given, 1, Self::MAX)).map(Self)
    }
}

impl QueryValue for ListOffset {
    const ALLOWED: &'static str = "an integer from 0 to 2147483647";

    fn schema() -> MetaSchema {
        integer_schema(0, Self::MAX, 0)
    }

    fn parse(given: Option<&str>) -> Option<Self> {
        given.map_or(Some(0), |given| integer_within(given, 0, Self::MAX)).map(Self)
    }
}

impl QueryValue for AllKeys {
    const ALLOWED: &'static str = "true or false";

    fn schema() -> MetaSchema {
        MetaSchema { default: Some(false.into()), ..MetaSchema::new("boolean") }
    }

    fn parse(given: Option<&str>) -> Option<Self> {
        match given {
            None | Some("false") => Some(Self(false)),
            Some("true") => Some(Self(true)),
            Some(_) => None,
        }
    }
}
