//! The bodies of requests as the document describes them, and how they are parsed. In all of them,
//! null counts as absent.

use std::time::Duration;

use poem_openapi::Object;

use super::body::{Fields, FromFields};
use super::error::ControlApiError;
use crate::http::document::Time;
use crate::http::error::InvalidParameter;
use crate::keys::key_rules::{EXPIRES_BEFORE, MAX_OVERLAP_S, MAX_SCOPES};
use crate::keys::{KeyChange, KeyPrefix, KeySpec};
use crate::registry::{ApiKeyRecord, LABEL, READ_SCOPE, Timestamp, is_label, is_scope};

const SCOPES: &str = "a list of 1 to 16 scopes, each 1 to 64 of the characters a-z, 0-9, : . _ -";
const RATE_LIMIT: &str = "an integer from 0 to 2147483647";
const NEW_RATE_LIMIT: &str = "an integer from 1 to 2147483647";
const EXPIRY: &str = "a time in the future and before 9999-12-30T00:00:00Z, with nine decimals at most, such as \
     2030-01-31T12:00:00Z";
const OVERLAP: &str = "an integer from 0 to 31536000";
const PREFIX: &str = "the beginning of the key";
const DEFAULT_OVERLAP_S: u32 = 86_400;

/// A key to be created.
#[derive(Object)]
pub(super) struct CreateApiKey {
    /// Its name: not only white space, and without control, bidirectional and other invisible
    /// characters.
    #[oai(validator(min_length = 1, max_length = 200))]
    name: String,
    /// The operations that it allows, each 1 to 64 of the characters `a-z`, `0-9`, `: . _ -`;
    /// `["read"]` by default. Users may choose those in `control.scopes`; operators may choose unknown
    /// ones, too, if `block` is true.
    #[oai(nullable, validator(min_items = 1, max_items = 16))]
    scopes: Option<Vec<String>>,
    /// Rate limit in requests a minute; 30 by default. 0 is refused unless `block` is true. Users may
    /// choose `control.max_rate_limit` at most.
    #[oai(nullable, validator(minimum(value = "0"), maximum(value = "2147483647")))]
    rate_limit_per_minute: Option<i32>,
    /// When it expires: a time in the future, before 9999-12-30T00:00:00Z, with nine decimals of a
    /// second at most, which are cut off. Absent or null for never.
    #[oai(nullable)]
    expires_at: Option<Time>,
    /// Whether to create a key that nobody can use: with the rate limit 0, or with unknown scopes;
    /// false by default.
    #[oai(nullable)]
    block: Option<bool>,
}

/// A key to be changed, and at least one change.
#[derive(Object)]
pub(super) struct UpdateApiKey {
    /// The key's beginning: `gr_` and 4 to 8 characters, with or without the `gr_`; never the
    /// whole key.
    #[oai(validator(min_length = 4, max_length = 11))]
    prefix: String,
    /// Whether to select among everybody's keys; only for operators.
    #[oai(nullable)]
    all: Option<bool>,
    /// Its new name; the rules are those for a new key.
    #[oai(nullable, validator(min_length = 1, max_length = 200))]
    name: Option<String>,
    /// Its new rate limit in requests a minute. Users may choose `control.max_rate_limit` at most.
    #[oai(nullable, validator(minimum(value = "1"), maximum(value = "2147483647")))]
    rate_limit_per_minute: Option<i32>,
    /// When it expires: a time in the future, before 9999-12-30T00:00:00Z, with nine decimals of a
    /// second at most, which are cut off.
    #[oai(nullable)]
    expires_at: Option<Time>,
    /// Whether it never expires; not together with `expires_at`. A field of its own, because some
    /// clients send null for what they leave out.
    #[oai(nullable)]
    never_expires: Option<bool>,
}

/// A key to be revoked.
#[derive(Object)]
pub(super) struct RevokeApiKey {
    /// The key's beginning: `gr_` and 4 to 8 characters, with or without the `gr_`; never the
    /// whole key.
    #[oai(validator(min_length = 4, max_length = 11))]
    prefix: String,
    /// Whether to select among everybody's keys; only for operators.
    #[oai(nullable)]
    all: Option<bool>,
}

/// A key to be replaced.
#[derive(Object)]
pub(super) struct RotateApiKey {
    /// The key's beginning: `gr_` and 4 to 8 characters, with or without the `gr_`; never the
    /// whole key.
    #[oai(validator(min_length = 4, max_length = 11))]
    prefix: String,
    /// Seconds for which the old key stays usable; 86400 by default.
    #[oai(nullable, validator(minimum(value = "0"), maximum(value = "31536000")))]
    overlap_s: Option<i32>,
    /// Whether to select among everybody's keys; only for operators.
    #[oai(nullable)]
    all: Option<bool>,
}

/// A parsed [`CreateApiKey`].
pub(super) struct KeyToCreate {
    pub(super) spec: KeySpec,
    /// Whether it may be one that nobody can use.
    pub(super) block: bool,
}

/// Selects the key that a request is about.
pub(super) struct KeySelector {
    pub(super) prefix: KeyPrefix,
    pub(super) all: bool,
}

impl FromFields for CreateApiKey {
    type Parsed = KeyToCreate;

    const FIELDS: &'static [&'static str] =
        &["name", "scopes", "rate_limit_per_minute", "expires_at", "block"];

    fn from_fields(fields: &Fields) -> Result<KeyToCreate, ControlApiError> {
        let name = name(fields)?;
        let scopes = fields.get("scopes", SCOPES, |scopes: &Vec<String>| {
            (1..=MAX_SCOPES).contains(&scopes.len()) && scopes.iter().all(|scope| is_scope(scope))
        })?;
        let rate_limit = fields.get("rate_limit_per_minute", RATE_LIMIT, |limit: &u32| {
            *limit <= i32::MAX.unsigned_abs()
        })?;
        let spec = KeySpec {
            name: name.ok_or_else(|| InvalidParameter::missing("name", LABEL))?,
            scopes: scopes.unwrap_or_else(|| vec![READ_SCOPE.to_owned()]),
            rate_limit_per_minute: rate_limit.unwrap_or(ApiKeyRecord::DEFAULT_RATE_LIMIT),
            expires_at: expires_at(fields)?,
        };
        Ok(KeyToCreate { spec, block: flag(fields, "block")? })
    }
}

impl FromFields for UpdateApiKey {
    type Parsed = (KeySelector, KeyChange);

    const FIELDS: &'static [&'static str] =
        &["prefix", "all", "name", "rate_limit_per_minute", "expires_at", "never_expires"];

    fn from_fields(fields: &Fields) -> Result<(KeySelector, KeyChange), ControlApiError> {
        let expires_at = match (expires_at(fields)?, flag(fields, "never_expires")?) {
            (Some(_), true) => {
                let both = "never_expires must not be given together with expires_at";
                return Err(InvalidParameter(both.to_owned()).into());
            }
            (None, true) => Some(None),
            (at, false) => at.map(Some),
        };
        let rate_limit_per_minute =
            fields.get("rate_limit_per_minute", NEW_RATE_LIMIT, |limit: &u32| {
                (1..=i32::MAX.unsigned_abs()).contains(limit)
            })?;
        let change = KeyChange { name: name(fields)?, rate_limit_per_minute, expires_at };
        if change == KeyChange::default() {
            let none = "body must have name, rate_limit_per_minute, expires_at or never_expires";
            return Err(InvalidParameter(none.to_owned()).into());
        }
        Ok((selector(fields)?, change))
    }
}

impl FromFields for RevokeApiKey {
    type Parsed = KeySelector;

    const FIELDS: &'static [&'static str] = &["prefix", "all"];

    fn from_fields(fields: &Fields) -> Result<KeySelector, ControlApiError> {
        selector(fields)
    }
}

impl FromFields for RotateApiKey {
    type Parsed = (KeySelector, Duration);

    const FIELDS: &'static [&'static str] = &["prefix", "overlap_s", "all"];

    fn from_fields(fields: &Fields) -> Result<(KeySelector, Duration), ControlApiError> {
        let overlap =
            fields.get("overlap_s", OVERLAP, |overlap: &u32| *overlap <= MAX_OVERLAP_S)?;
        let overlap = Duration::from_secs(overlap.unwrap_or(DEFAULT_OVERLAP_S).into());
        Ok((selector(fields)?, overlap))
    }
}

fn name(fields: &Fields) -> Result<Option<String>, InvalidParameter> {
    fields.get("name", LABEL, |name: &String| is_label(name))
}

fn expires_at(fields: &Fields) -> Result<Option<Timestamp>, InvalidParameter> {
    // Whole seconds are stored.
    let (now, before) = (Timestamp::now().as_second(), EXPIRES_BEFORE.as_second());
    fields.get("expires_at", EXPIRY, |at: &Timestamp| (now + 1..before).contains(&at.as_second()))
}

fn selector(fields: &Fields) -> Result<KeySelector, ControlApiError> {
    let prefix: Option<String> = fields.get("prefix", PREFIX, |_| true)?;
    let prefix = prefix.ok_or_else(|| InvalidParameter::missing("prefix", PREFIX))?.parse()?;
    Ok(KeySelector { prefix, all: flag(fields, "all")? })
}

fn flag(fields: &Fields, name: &str) -> Result<bool, InvalidParameter> {
    Ok(fields.get(name, "true or false", |_| true)?.unwrap_or_default())
}
