//! The wire formats of columns in Postgres, read so that no value that a column can hold is an error.

use std::error::Error;

use tokio_postgres::types::{
    FromSql, IsNull, ToSql, Type, accepts, private::BytesMut, to_sql_checked,
};

use crate::registry::{JsonText, Timestamp};

/// Microseconds from 1970 to 2000, the epoch of Postgres.
const POSTGRES_EPOCH: i64 = 946_684_800_000_000;

/// A `timestamptz`. Infinities and values beyond the range of [`Timestamp`] become its bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PgTimestamp(pub(crate) Timestamp);

impl<'a> FromSql<'a> for PgTimestamp {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        let micros = i64::from_be_bytes(raw.try_into()?);
        let end = if micros < 0 { Timestamp::MIN } else { Timestamp::MAX };
        let since_1970 =
            micros.checked_add(POSTGRES_EPOCH).and_then(|m| Timestamp::from_microsecond(m).ok());
        Ok(Self(since_1970.unwrap_or(end)))
    }

    accepts!(TIMESTAMPTZ);
}

impl ToSql for PgTimestamp {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        // Postgres has no time before 4714 BC; as a lower bound, -infinity means the same.
        let earliest = -211_813_488_000_000_000;
        let micros = self.0.as_microsecond() - POSTGRES_EPOCH;
        let micros = if micros < earliest { i64::MIN } else { micros };
        out.extend_from_slice(&micros.to_be_bytes());
        Ok(IsNull::No)
    }

    accepts!(TIMESTAMPTZ);
    to_sql_checked!();
}

/// A text. Bytes that are not UTF-8, which a database of the encoding SQL_ASCII may hold, become U+FFFD.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PgText(pub(crate) String);

impl<'a> FromSql<'a> for PgText {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(Self(String::from_utf8_lossy(raw).into_owned()))
    }

    fn accepts(kind: &Type) -> bool {
        <String as FromSql>::accepts(kind)
    }
}

/// A value of the type `json`, with bytes that are not UTF-8 as in [`PgText`].
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PgJson(pub(crate) JsonText);

impl<'a> FromSql<'a> for PgJson {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(Self(JsonText::parse(&String::from_utf8_lossy(raw))?))
    }

    accepts!(JSON);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timestamp(micros: i64) -> Timestamp {
        PgTimestamp::from_sql(&Type::TIMESTAMPTZ, &micros.to_be_bytes()).expect("eight bytes").0
    }

    #[test]
    fn infinities_become_the_bounds_of_the_range() {
        assert_eq!(timestamp(0).to_string(), "2000-01-01T00:00:00Z");
        assert_eq!(timestamp(-POSTGRES_EPOCH), Timestamp::UNIX_EPOCH);
        assert_eq!(timestamp(i64::MAX), Timestamp::MAX);
        assert_eq!(timestamp(i64::MIN), Timestamp::MIN);
    }

    #[test]
    fn reading_restores_what_was_written() {
        for micros in [0, -1, 1_700_000_000_123_456, -63_000_000_000_000_000] {
            let mut written = BytesMut::new();
            PgTimestamp(timestamp(micros))
                .to_sql(&Type::TIMESTAMPTZ, &mut written)
                .expect("a time");
            assert_eq!(written.as_ref(), micros.to_be_bytes());
        }
    }
}
