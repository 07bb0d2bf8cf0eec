//! Mixed traffic, and the responses that are allowed while anything may be broken: the table of
//! faults in the design, from the clients' side.

use std::collections::BTreeMap;
use std::time::Duration;

use gene_registry::keys::ApiKey;
use reqwest::{Client, Method};
use tokio::time::Instant;

use crate::support::random::Random;
use crate::support::replica::Response;
use crate::support::traffic::uncached_path;

/// The maximum duration of a request. (The service's own bounds are 2 s; the machine is busy with
/// other work.)
const MAX_DURATION: Duration = Duration::from_secs(10);

/// The facts about the registry that the traffic needs.
#[derive(Debug, Clone)]
pub(super) struct RegistryFacts {
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
pub(super) enum RequestKind {
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

const MIX: [(RequestKind, usize); 15] = [
    (RequestKind::Known, 40),
    (RequestKind::Uncached, 12),
    (RequestKind::Conditional, 8),
    (RequestKind::Narrow, 4),
    (RequestKind::UnknownGene, 4),
    (RequestKind::MalformedId, 3),
    (RequestKind::WrongQuery, 3),
    (RequestKind::UnknownKey, 3),
    (RequestKind::MalformedKey, 3),
    (RequestKind::NoKey, 3),
    (RequestKind::RevokedKey, 3),
    (RequestKind::WrongMethod, 3),
    (RequestKind::UnknownRoute, 3),
    (RequestKind::Document, 2),
    (RequestKind::Leaver, 6),
];

/// The status and code of each response that a kind may get; no code for a success. While the
/// database is unavailable, an uncached read is 502; a shed one is 503.
fn allowed(kind: RequestKind) -> &'static [(u16, &'static str)] {
    const FAULTS: [(u16, &str); 2] = [(502, "DB_ERROR"), (503, "UNAVAILABLE")];
    match kind {
        RequestKind::Known | RequestKind::Uncached | RequestKind::Leaver => {
            &[(200, ""), FAULTS[0], FAULTS[1]]
        }
        RequestKind::Conditional => &[(200, ""), (304, ""), FAULTS[0], FAULTS[1]],
        RequestKind::Narrow => &[(200, ""), (429, "RATE_LIMITED"), FAULTS[0], FAULTS[1]],
        RequestKind::UnknownGene => &[(404, "NOT_FOUND"), FAULTS[0], FAULTS[1]],
        // These read no store but for the record of the key, which is cached.
        RequestKind::MalformedId => &[(400, "INVALID_ID")],
        RequestKind::WrongQuery => &[(400, "MISSING_PARAM")],
        RequestKind::UnknownKey => &[(401, "UNAUTHORIZED"), FAULTS[0], FAULTS[1]],
        RequestKind::MalformedKey | RequestKind::NoKey | RequestKind::RevokedKey => {
            &[(401, "UNAUTHORIZED")]
        }
        RequestKind::WrongMethod => &[(405, "METHOD_NOT_ALLOWED")],
        RequestKind::UnknownRoute => &[(404, "NOT_FOUND")],
        RequestKind::Document => &[(200, "")],
    }
}

/// How often each kind got each status.
pub(super) type StatusCounts = BTreeMap<(RequestKind, u16), u32>;

/// Sends requests to one replica until `until`.
///
/// # Errors
/// The first response that is not allowed, or a request without a response.
pub(super) async fn stream(
    base: String,
    registry_facts: RegistryFacts,
    mut random: Random,
    end: Instant,
) -> Result<StatusCounts, String> {
    let client = Client::builder().timeout(MAX_DURATION).build().unwrap();
    let mut counts = StatusCounts::new();
    while Instant::now() < end {
        let kind = kind(&mut random);
        let (method, path, key, expected) = request(kind, &registry_facts, &mut random);
        let mut request = client.request(method, format!("{base}{path}"));
        if let Some(key) = &key {
            request = request.header("X-API-Key", key);
        }
        if kind == RequestKind::Conditional {
            request = request.header("If-None-Match", "*");
        }
        let response_future = async { Ok(Response::of(request.send().await?).await) };
        let limit =
            if kind == RequestKind::Leaver { random.millis(1..100) } else { MAX_DURATION * 2 };
        match tokio::time::timeout(limit, response_future).await {
            Err(_) if kind == RequestKind::Leaver => {}
            Err(_) => return Err(format!("{kind:?} {path}: no response")),
            Ok(Err::<_, reqwest::Error>(error)) => {
                return Err(format!("{kind:?} {path}: {error:?}"));
            }
            Ok(Ok(response)) => {
                check(kind, &response, expected)
                    .map_err(|what| format!("{kind:?} {path}: {what}: {response:?}"))?;
                *counts.entry((kind, response.status.as_u16())).or_default() += 1;
            }
        }
        tokio::time::sleep(random.millis(0..20)).await;
    }
    Ok(counts)
}

fn kind(random: &mut Random) -> RequestKind {
    let mut place = random.below(MIX.iter().map(|(_, weight)| weight).sum());
    for (kind, weight) in MIX {
        if place < weight {
            return kind;
        }
        place -= weight;
    }
    RequestKind::Known
}

type Request<'a> = (Method, String, Option<String>, Option<&'a str>);

fn request<'a>(
    kind: RequestKind,
    registry_facts: &'a RegistryFacts,
    random: &mut Random,
) -> Request<'a> {
    let (known, text) = random.of(&registry_facts.known);
    let some = |path: &str| (Method::GET, path.to_owned(), Some(registry_facts.key.clone()), None);
    let keyed = |key: Option<String>| (Method::GET, known.clone(), key, None);
    match kind {
        RequestKind::Known => {
            (Method::GET, known.clone(), Some(registry_facts.key.clone()), Some(text))
        }
        RequestKind::Conditional => some(known),
        RequestKind::Uncached | RequestKind::Leaver => some(&uncached_path()),
        RequestKind::Narrow => keyed(Some(registry_facts.narrow.clone())),
        RequestKind::UnknownGene => {
            let id =
                format!("{:08x}-0000-4000-8000-{:012x}", random.next() as u32, random.next() >> 16);
            some(&format!("/genes/{id}/phenotype"))
        }
        RequestKind::MalformedId => some("/genes/nonsense/phenotype"),
        RequestKind::WrongQuery => some("/genes?limit=51"),
        RequestKind::UnknownKey => keyed(Some(ApiKey::generate().unwrap().expose().to_owned())),
        RequestKind::MalformedKey => keyed(Some("gr_nonsense".to_owned())),
        RequestKind::NoKey => keyed(None),
        RequestKind::RevokedKey => keyed(Some(registry_facts.revoked.clone())),
        RequestKind::WrongMethod => {
            (Method::DELETE, known.clone(), Some(registry_facts.key.clone()), None)
        }
        RequestKind::UnknownRoute => some("/nothing"),
        RequestKind::Document => (Method::GET, "/openapi.json".to_owned(), None, None),
    }
}

fn check(kind: RequestKind, response: &Response, expected: Option<&str>) -> Result<(), String> {
    let status = response.status.as_u16();
    let code = if status < 400 { String::new() } else { response.code() };
    if !allowed(kind).contains(&(status, code.as_str())) {
        return Err(format!("{status} {code} is not allowed"));
    }
    let must = |holds: bool, what: &str| if holds { Ok(()) } else { Err(what.to_owned()) };
    let has = |name: &str| !response.header(name).is_empty();
    must(has("x-request-id"), "no X-Request-Id")?;
    must(status < 400 || response.header("cache-control") == "no-store", "an error may be kept")?;
    must(![429, 503].contains(&status) || has("retry-after"), "no Retry-After")?;
    // A 502 may lack the limit: the record of an unknown key cannot be read.
    let is_counted = !matches!(
        kind,
        RequestKind::UnknownKey
            | RequestKind::MalformedKey
            | RequestKind::NoKey
            | RequestKind::RevokedKey
            | RequestKind::WrongMethod
            | RequestKind::UnknownRoute
            | RequestKind::Document
    );
    must(is_counted == has("x-ratelimit-remaining"), "limit headers")?;
    if status == 200
        && let Some(expected) = expected
    {
        must(response.text == expected, &format!("not the registry's response {expected}"))?;
    }
    Ok(())
}
