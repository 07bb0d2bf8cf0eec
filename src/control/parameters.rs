//! The query parameters of the key operations.

use std::ops::RangeInclusive;

use poem_openapi::registry::MetaSchema;

use crate::http::document::integer;
use crate::http::parameter::{ParameterValue, digits};

/// The number of keys on a page: 1 to 1000.
pub(super) struct ListLimit(pub(super) u32);

/// The number of keys to skip: 0 to 2147483647.
pub(super) struct ListOffset(pub(super) u32);

impl ListLimit {
    const DEFAULT: u32 = 100;
    const MAX: u32 = 1000;
}

impl ListOffset {
    const MAX: u32 = i32::MAX.unsigned_abs();
}

fn number_within(given: &str, range: RangeInclusive<u32>) -> Option<u32> {
    let number = u32::try_from(digits(given)?).ok()?;
    range.contains(&number).then_some(number)
}

impl ParameterValue for ListLimit {
    const ALLOWED: &'static str = "an integer from 1 to 1000";

    fn schema() -> MetaSchema {
        let default = Some(Self::DEFAULT.into());
        MetaSchema { default, ..integer(1, Self::MAX) }
    }

    fn parse(given: Option<&str>) -> Option<Self> {
        given.map_or(Some(Self::DEFAULT), |given| number_within(given, 1..=Self::MAX)).map(Self)
    }
}

impl ParameterValue for ListOffset {
    const ALLOWED: &'static str = "an integer from 0 to 2147483647";

    fn schema() -> MetaSchema {
        MetaSchema { default: Some(0.into()), ..integer(0, Self::MAX) }
    }

    fn parse(given: Option<&str>) -> Option<Self> {
        given.map_or(Some(0), |given| number_within(given, 0..=Self::MAX)).map(Self)
    }
}

/// A flag, which is false by default.
impl ParameterValue for bool {
    const ALLOWED: &'static str = "true or false";

    fn schema() -> MetaSchema {
        MetaSchema { default: Some(false.into()), ..MetaSchema::new("boolean") }
    }

    fn parse(given: Option<&str>) -> Option<Self> {
        match given {
            None | Some("false") => Some(false),
            Some("true") => Some(true),
            Some(_) => None,
        }
    }
}
