//! Compares one response with what `docs/staleness.md` and `docs/api.md` promise of its age.

use super::target::Observation;
use crate::config::{AgesConfig, CacheConfig, Config};

/// For how many seconds a client may use a response at most.
const CLIENT_MAX_AGE_S: u64 = 30;

/// The most seconds that a read may take, with the wait for it.
const MAX_READ_S: u64 = 5;

/// Characters of a header that are shown.
const MAX_SHOWN: usize = 100;

/// A kind of response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Search,
    Phenotype,
    Insights,
    /// An error, which is never cached by clients.
    Error,
}

/// Where a response was found, by its `Cache-Status` (RFC 9211).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    /// In a cache; `ttl` is below 0 if it is stale.
    Cached { ttl: i64 },
    /// In a cache, while the change log is not read.
    Unconfirmed,
    /// In the database.
    Read,
    /// In a cache, because the database could not be read.
    StaleIfError,
}

impl Found {
    /// Parses the member of the list that is the service's; others are of proxies.
    pub(super) fn of(response: &Observation) -> Option<Self> {
        let list = response.list("cache-status");
        let mut parts = list
            .split(',')
            .map(|member| member.split(';').map(str::trim))
            .find(|parts| parts.clone().next() == Some("gene-registry"))?
            .skip(1);
        match parts.next()? {
            "hit" => {
                let ttl = parts.next()?.strip_prefix("ttl=")?.parse().ok()?;
                match parts.next()? {
                    "detail=local" | "detail=shared" => Some(Self::Cached { ttl }),
                    "detail=unconfirmed" => Some(Self::Unconfirmed),
                    _ => None,
                }
            }
            "fwd=miss" => Some(Self::Read),
            "fwd=stale" => Some(Self::StaleIfError),
            _ => None,
        }
    }
}

/// The bounds of ages.
#[derive(Debug)]
pub(super) struct AgeBounds<'a> {
    cache: &'a CacheConfig,
    /// The age of what was just read, in seconds: a standby may lag.
    read_s: u64,
}

impl<'a> AgeBounds<'a> {
    /// Of a fleet with this configuration.
    pub(super) fn of(config: &'a Config) -> Self {
        Self { cache: &config.cache, read_s: MAX_READ_S + config.upstream.max_lag_ms / 1000 }
    }
}

/// What is wrong with the response.
pub(super) fn violation(
    kind: Kind,
    response: &Observation,
    bounds: &AgeBounds<'_>,
) -> Option<String> {
    let ages = match kind {
        Kind::Search => &bounds.cache.search,
        Kind::Phenotype => &bounds.cache.phenotype,
        Kind::Insights => &bounds.cache.insights,
        Kind::Error => return error_violation(response),
    };
    let [age, control, status] =
        ["age", "cache-control", "cache-status"].map(|name| shortened(&response.list(name)));
    let given = format!("(Age {age:?}, Cache-Control {control:?}, Cache-Status {status:?})");
    let max_age = response
        .header("cache-control")
        .and_then(|value| value.strip_prefix("private, max-age=")?.parse::<u64>().ok());
    let parts = (Found::of(response), response.number("age"), max_age);
    let (Some(found), Some(age), Some(max_age)) = parts else {
        return Some(format!("Age, Cache-Control or Cache-Status is not as documented {given}"));
    };
    let wrong = wrong_age(kind, found, age, (ages, bounds.read_s))
        .or_else(|| wrong_max_age(found, age, max_age))?;
    Some(format!("{wrong} {given}"))
}

fn wrong_age(
    kind: Kind,
    found: Found,
    age: u64,
    (ages, read_s): (&AgesConfig, u64),
) -> Option<String> {
    let AgesConfig { fresh_s, stale_s, if_error_s } = *ages;
    let (oldest, name) = match found {
        Found::Cached { ttl } if ttl > 0 && age.saturating_add(ttl.unsigned_abs()) > fresh_s => {
            return Some(format!(
                "the response claims to be fresh for more than fresh_s = {fresh_s}"
            ));
        }
        Found::Cached { .. } => (fresh_s.saturating_add(stale_s), "fresh_s + stale_s"),
        // The total of a page may have been read before the page.
        Found::Read if kind == Kind::Search => (fresh_s / 2 + read_s, "fresh_s / 2 and a read"),
        Found::Read => (read_s, "a read takes"),
        Found::Unconfirmed | Found::StaleIfError => (if_error_s, "if_error_s"),
    };
    (age > oldest).then(|| format!("the response is older than {name}, {oldest} s"))
}

/// `max-age` counts from the read, as `Age` does.
fn wrong_max_age(found: Found, age: u64, max_age: u64) -> Option<String> {
    let (least, most) = match found {
        Found::Cached { ttl } if ttl > 0 => {
            let exact = age + ttl.unsigned_abs().min(CLIENT_MAX_AGE_S);
            (exact, exact)
        }
        Found::Read => (0, age + CLIENT_MAX_AGE_S),
        Found::Cached { .. } | Found::Unconfirmed | Found::StaleIfError => (0, 0),
    };
    let is_right = (least..=most).contains(&max_age);
    let allowed =
        if least == most { least.to_string() } else { format!("between {least} and {most}") };
    (!is_right).then(|| format!("max-age is not {allowed}"))
}

fn error_violation(response: &Observation) -> Option<String> {
    let (given, status) = (response.list("cache-control"), response.status.as_u16());
    (given != "no-store")
        .then(|| format!("an error with status {status} has Cache-Control {:?}", shortened(&given)))
}

/// At most a line of a report.
fn shortened(value: &str) -> String {
    value.chars().take(MAX_SHOWN).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::LoadedConfig;

    fn defaults() -> Config {
        LoadedConfig::read(None).expect("the defaults").config
    }

    fn judged(kind: Kind, headers: [&str; 3]) -> Option<String> {
        let names = ["age", "cache-control", "cache-status"];
        let headers: Vec<_> = names.into_iter().zip(headers).collect();
        violation(kind, &Observation::of(200, &headers), &AgeBounds::of(&defaults()))
    }

    #[test]
    fn what_is_documented_is_accepted() {
        for (kind, age, control, status) in [
            (Kind::Search, "0", "private, max-age=29", "gene-registry; hit; ttl=29; detail=local"),
            (Kind::Search, "20", "private, max-age=20", "proxy; fwd=miss, gene-registry; fwd=miss"),
            (
                Kind::Search,
                "60",
                "private, max-age=0",
                "gene-registry; hit; ttl=-30; detail=shared",
            ),
            (Kind::Phenotype, "0", "private, max-age=30", "gene-registry; fwd=miss; collapsed"),
            (
                Kind::Phenotype,
                "9",
                "private, max-age=39",
                "gene-registry; hit; ttl=280; detail=local",
            ),
            (
                Kind::Insights,
                "99",
                "private, max-age=0",
                "gene-registry; hit; ttl=-40; detail=unconfirmed",
            ),
            (
                Kind::Insights,
                "86400",
                "private, max-age=0",
                "gene-registry; fwd=stale; fwd-status=502",
            ),
        ] {
            assert_eq!(judged(kind, [age, control, status]), None, "{status}");
        }
        let error = Observation::of(404, &[("cache-control", "no-store")]);
        assert_eq!(violation(Kind::Error, &error, &AgeBounds::of(&defaults())), None);
    }

    #[test]
    fn everything_else_is_a_violation() {
        for (kind, age, control, status, expected) in [
            (
                Kind::Search,
                "0",
                "private, max-age=29",
                "gene-registry; hit; detail=local",
                "not as documented",
            ),
            (
                Kind::Search,
                "0",
                "private, max-age=29",
                "nginx; hit; ttl=29; detail=local",
                "not as documented",
            ),
            (
                Kind::Search,
                "",
                "private, max-age=29",
                "gene-registry; fwd=miss",
                "not as documented",
            ),
            (Kind::Search, "5", "max-age=29", "gene-registry; fwd=miss", "not as documented"),
            (
                Kind::Search,
                "61",
                "private, max-age=0",
                "gene-registry; hit; ttl=-31; detail=local",
                "older than fresh_s + stale_s, 60 s",
            ),
            (
                Kind::Search,
                "5",
                "private, max-age=35",
                "gene-registry; hit; ttl=30; detail=local",
                "more than fresh_s = 30",
            ),
            (
                Kind::Search,
                "31",
                "private, max-age=31",
                "gene-registry; fwd=miss",
                "older than fresh_s / 2 and a read, 30 s",
            ),
            (
                Kind::Phenotype,
                "16",
                "private, max-age=46",
                "gene-registry; fwd=miss",
                "older than a read takes, 15 s",
            ),
            (
                Kind::Phenotype,
                "9",
                "private, max-age=30",
                "gene-registry; hit; ttl=280; detail=local",
                "max-age is not 39",
            ),
            (
                Kind::Insights,
                "9",
                "private, max-age=39",
                "gene-registry; hit; ttl=40; detail=unconfirmed",
                "max-age is not 0",
            ),
            (
                Kind::Insights,
                "86401",
                "private, max-age=0",
                "gene-registry; fwd=stale; fwd-status=502",
                "older than if_error_s",
            ),
        ] {
            let found = judged(kind, [age, control, status]).unwrap_or_default();
            assert!(found.contains(expected), "{status}: {found}");
        }
        let error = Observation::of(404, &[("cache-control", "private, max-age=1")]);
        assert!(violation(Kind::Error, &error, &AgeBounds::of(&defaults())).is_some());
    }
}
