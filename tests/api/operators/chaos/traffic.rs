//! Mixed traffic, and the responses that are allowed while anything may be broken: the table of
//! faults in the design, from the clients' side.

use std::collections::BTreeMap;
use std::time::Duration;

use gene_registry::keys::ApiKey;
use reqwest::{Client, Method};
use tokio::time::Instant;

use crate::support::random::Random;
use crate::support::replica::Answer;
use crate::support::traffic::uncached;

/// The maximum duration of a request. (The service's own bounds are 2 s; the machine is busy with
/// other work.)
const LONGEST: Duration = Duration::from_secs(10);

/// The facts about the registry that the traffic needs.
#[derive(Debug, Clone)]
pub(super) struct World {
    /// Keys whose limit is never reached.
    pub(super) key: String,
    /// A key with a limit of thirty requests a minute.
    pub(super) narrow: String,
    pub(super) revoked: String,
    /// Paths that are requested repeatedly, with their responses from before the first fault: the
    /// registry does not change.
    pub(super) known: Vec<(String, String)>,
}

/// The kinds of requests; [`MIX`] has their weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Known,
    Uncached,
    Conditional,
    Narrow,
    UnknownGene,
    MalformedId,
    WrongQuery,
    UnknownKey,
    MalformedKey,
    NoKey,
    RevokedKey,
    WrongMethod,
    UnknownRoute,
    Document,
    Leaver,
}

const MIX: [(Kind, usize); 15] = [
    (Kind::Known, 40),
    (Kind::Uncached, 12),
    (Kind::Conditional, 8),
    (Kind::Narrow, 4),
    (Kind::UnknownGene, 4),
    (Kind::MalformedId, 3),
    (Kind::WrongQuery, 3),
    (Kind::UnknownKey, 3),
    (Kind::MalformedKey, 3),
    (Kind::NoKey, 3),
    (Kind::RevokedKey, 3),
    (Kind::WrongMethod, 3),
    (Kind::UnknownRoute, 3),
    (Kind::Document, 2),
    (Kind::Leaver, 6),
];

/// The status and code of each response that a kind may get; no code for a success. While the
/// database is unavailable, an uncached read is 502; a shed one is 503.
fn allowed(kind: Kind) -> &'static [(u16, &'static str)] {
    const FAULTS: [(u16, &str); 2] = [(502, "DB_ERROR"), (503, "UNAVAILABLE")];
    match kind {
        Kind::Known | Kind::Uncached | Kind::Leaver => &[(200, ""), FAULTS[0], FAULTS[1]],
        Kind::Conditional => &[(200, ""), (304, ""), FAULTS[0], FAULTS[1]],
        Kind::Narrow => &[(200, ""), (429, "RATE_LIMITED"), FAULTS[0], FAULTS[1]],
        Kind::UnknownGene => &[(404, "NOT_FOUND"), FAULTS[0], FAULTS[1]],
        // These read no store but for the record of the key, which is cached.
        Kind::MalformedId => &[(400, "INVALID_ID")],
        Kind::WrongQuery => &[(400, "MISSING_PARAM")],
        Kind::UnknownKey => &[(401, "UNAUTHORIZED"), FAULTS[0], FAULTS[1]],
        Kind::MalformedKey | Kind::NoKey | Kind::RevokedKey => &[(401, "UNAUTHORIZED")],
        Kind::WrongMethod => &[(405, "METHOD_NOT_ALLOWED")],
        Kind::UnknownRoute => &[(404, "NOT_FOUND")],
        Kind::Document => &[(200, "")],
    }
}

/// How often each kind got each status.
pub(super) type Counts = BTreeMap<(Kind, u16), u32>;

/// Sends requests to one replica until `until`.
///
/// # Errors
/// The first response that is not allowed, or a request without a response.
pub(super) async fn stream(
    base: String,
    world: World,
    mut random: Random,
    end: Instant,
) -> Result<Counts, String> {
    let client = Client::builder().timeout(LONGEST).build().unwrap();
    let mut counts = Counts::new();
    while Instant::now() < end {
        let kind = kind(&mut random);
        let (method, path, key, expected) = request(kind, &world, &mut random);
        let mut request = client.request(method, format!("{base}{path}"));
        if let Some(key) = &key {
            request = request.header("X-API-Key", key);
        }
        if kind == Kind::Conditional {
            request = request.header("If-None-Match", "*");
        }
        let answered = async { Ok(Answer::of(request.send().await?).await) };
        let patience = if kind == Kind::Leaver { random.millis(1..100) } else { LONGEST * 2 };
        match tokio::time::timeout(patience, answered).await {
            Err(_) if kind == Kind::Leaver => {}
            Err(_) => return Err(format!("{kind:?} {path}: no answer")),
            Ok(Err::<_, reqwest::Error>(error)) => {
                return Err(format!("{kind:?} {path}: {error:?}"));
            }
            Ok(Ok(answer)) => {
                check(kind, &answer, expected)
                    .map_err(|what| format!("{kind:?} {path}: {what}: {answer:?}"))?;
                *counts.entry((kind, answer.status.as_u16())).or_default() += 1;
            }
        }
        tokio::time::sleep(random.millis(0..20)).await;
    }
    Ok(counts)
}

fn kind(random: &mut Random) -> Kind {
    let mut place = random.below(MIX.iter().map(|(_, weight)| weight).sum());
    for (kind, weight) in MIX {
        if place < weight {
            return kind;
        }
        place -= weight;
    }
    Kind::Known
}

type Request<'a> = (Method, String, Option<String>, Option<&'a str>);

fn request<'a>(kind: Kind, world: &'a World, random: &mut Random) -> Request<'a> {
    let (known, text) = random.of(&world.known);
    let some = |path: &str| (Method::GET, path.to_owned(), Some(world.key.clone()), None);
    let keyed = |key: Option<String>| (Method::GET, known.clone(), key, None);
    match kind {
        Kind::Known => (Method::GET, known.clone(), Some(world.key.clone()), Some(text)),
        Kind::Conditional => some(known),
        Kind::Uncached | Kind::Leaver => some(&uncached()),
        Kind::Narrow => keyed(Some(world.narrow.clone())),
        Kind::UnknownGene => {
            let id =
                format!("{:08x}-0000-4000-8000-{:012x}", random.next() as u32, random.next() >> 16);
            some(&format!("/genes/{id}/phenotype"))
        }
        Kind::MalformedId => some("/genes/nonsense/phenotype"),
        Kind::WrongQuery => some("/genes?limit=51"),
        Kind::UnknownKey => keyed(Some(ApiKey::generate().unwrap().expose().to_owned())),
        Kind::MalformedKey => keyed(Some("gr_nonsense".to_owned())),
        Kind::NoKey => keyed(None),
        Kind::RevokedKey => keyed(Some(world.revoked.clone())),
        Kind::WrongMethod => (Method::DELETE, known.clone(), Some(world.key.clone()), None),
        Kind::UnknownRoute => some("/nothing"),
        Kind::Document => (Method::GET, "/openapi.json".to_owned(), None, None),
    }
}

fn check(kind: Kind, answer: &Answer, expected: Option<&str>) -> Result<(), String> {
    let status = answer.status.as_u16();
    let code = if status < 400 { String::new() } else { answer.code() };
    if !allowed(kind).contains(&(status, code.as_str())) {
        return Err(format!("{status} {code} is not allowed"));
    }
    let must = |holds: bool, what: &str| if holds { Ok(()) } else { Err(what.to_owned()) };
    let has = |name: &str| !answer.header(name).is_empty();
    must(has("x-request-id"), "no X-Request-Id")?;
    must(status < 400 || answer.header("cache-control") == "no-store", "an error may be kept")?;
    must(![429, 503].contains(&status) || has("retry-after"), "no Retry-After")?;
    // A 502 may lack the limit: the record of an unknown key cannot be read.
    let is_counted = !matches!(
        kind,
        Kind::UnknownKey
            | Kind::MalformedKey
            | Kind::NoKey
            | Kind::RevokedKey
            | Kind::WrongMethod
            | Kind::UnknownRoute
            | Kind::Document
    );
    must(is_counted == has("x-ratelimit-remaining"), "limit headers")?;
    if status == 200
        && let Some(expected) = expected
    {
        must(answer.text == expected, &format!("not the registry's answer {expected}"))?;
    }
    Ok(())
}
