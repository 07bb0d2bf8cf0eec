//! Measures how long a revoked key is still accepted: with a key of the canary's own, which expires
//! after a minute in any case.

use std::time::Duration;

use futures_util::future::join_all;
use hyper::header::HeaderValue;
use hyper::{Method, StatusCode};
use jiff::SignedDuration;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::report::Outcome;
use super::target::{BaseUrl, Observation, Requests, SAMPLE};
use crate::cli::command::CommandError;
use crate::cli::session::ControlSession;
use crate::registry::{READ_SCOPE, Timestamp};

/// The name of the canary's own keys.
const KEY_NAME: &str = "canary";

/// A revocation applies within this time (docs/staleness.md).
const BOUND: Duration = Duration::from_secs(2);

/// The least time between two of these checks, by all canaries of a user.
const INTERVAL: Duration = Duration::from_secs(3_600);

/// Of a key of the canary.
const LIFETIME: Duration = Duration::from_secs(60);

/// Whether a key with this name and these times is one that the canary has made.
pub(in crate::cli) fn is_of_canary(
    name: &str,
    created_at: Timestamp,
    expires_at: Option<Timestamp>,
) -> bool {
    // The database's clock and that of the canary differ.
    let longest = SignedDuration::from_secs(2 * LIFETIME.as_secs().cast_signed());
    let lifetime = expires_at.map(|expires_at| expires_at.duration_since(created_at));
    name == KEY_NAME && lifetime.is_some_and(|lifetime| lifetime <= longest)
}

/// After this, a replica that still accepts the key is not asked any more.
const PATIENCE: Duration = Duration::from_secs(20);

const PAUSE: Duration = Duration::from_millis(100);

/// How often in a row the key must be refused: a balancer stands for several replicas.
const REFUSALS: u32 = 10;

#[derive(Deserialize)]
struct CanaryKey {
    key: String,
    prefix: String,
}

#[derive(Deserialize)]
struct ListedKey {
    name: String,
    created_at: Timestamp,
    expires_at: Option<Timestamp>,
}

#[derive(Deserialize)]
struct ListedKeys {
    data: Vec<ListedKey>,
}

/// Creates a key, uses it at each replica, revokes it, and waits until each refuses it. Returns how long
/// that took.
pub(super) async fn check(
    session: &mut ControlSession,
    requests: &Requests,
    replicas: &[BaseUrl],
) -> Result<(Outcome, Option<Duration>), CommandError> {
    if was_checked(session).await? {
        let text = "a canary of this user has checked it within the last hour";
        return Ok((Outcome::NotChecked(text.to_owned()), None));
    }
    let expires_at = Timestamp::now().checked_add(LIFETIME)?;
    let spec = json!({ "name": KEY_NAME, "scopes": [READ_SCOPE], "expires_at": expires_at });
    let CanaryKey { key, prefix } = session.send(Method::POST, "/api-keys", Some(&spec)).await?;
    let mut key = HeaderValue::try_from(key)?;
    key.set_sensitive(true);
    let accepted = join_all(replicas.iter().map(|one| is_accepted(requests, one, &key))).await;
    let body = json!({ "prefix": prefix, "all": false });
    session.send::<Value>(Method::POST, "/api-keys/revoke", Some(&body)).await?;
    let revoked = Instant::now();
    let refusals = replicas.iter().map(|replica| refusal(requests, replica, &key, revoked));
    let refusals = join_all(refusals).await;
    let (mut broken, mut unclear, mut longest) = (Vec::new(), Vec::new(), Duration::ZERO);
    for ((replica, accepted), refusal) in replicas.iter().zip(accepted).zip(refusals) {
        if accepted == Some(false) {
            broken.push(format!("{replica}: a new key is not accepted"));
        }
        longest = longest.max(refusal.accepted_until);
        if refusal.accepted_until > BOUND {
            let seconds = refusal.accepted_until.as_secs_f64();
            broken.push(format!(
                "{replica}: still accepted a key {seconds:.1} s after its revocation"
            ));
        } else if accepted.is_none() || !refusal.is_certain {
            unclear.push(format!("{replica} did not respond to all requests"));
        }
    }
    let outcome = if broken.is_empty() && !unclear.is_empty() {
        Outcome::NotChecked(unclear.join("; "))
    } else {
        let seconds = longest.as_secs_f64();
        Outcome::of(broken, format!("a revoked key was refused after {seconds:.1} s"))
    };
    let took = Some(longest).filter(|_| !matches!(outcome, Outcome::NotChecked(_)));
    Ok((outcome, took))
}

/// Whether a canary of this user has created a key within the last hour.
async fn was_checked(session: &mut ControlSession) -> Result<bool, CommandError> {
    // Newest first.
    let keys: ListedKeys =
        session.send(Method::GET, "/api-keys?limit=100&offset=0&all=false", None).await?;
    let now = Timestamp::now();
    let age = |key: &ListedKey| Duration::try_from(now.duration_since(key.created_at));
    let mut own =
        keys.data.iter().filter(|key| is_of_canary(&key.name, key.created_at, key.expires_at));
    Ok(own.any(|key| age(key).unwrap_or_default() < INTERVAL))
}

/// Whether the replica accepts the key, within the time in which a change applies; `None` if it does not
/// respond.
async fn is_accepted(requests: &Requests, replica: &BaseUrl, key: &HeaderValue) -> Option<bool> {
    let end = Instant::now() + BOUND;
    loop {
        let response = requests.get(replica, SAMPLE, key).await;
        let found = response.ok().and_then(|response| accepts(&response));
        if found == Some(true) || Instant::now() >= end {
            return found;
        }
        sleep(PAUSE).await;
    }
}

/// Whether the response shows that the key is accepted; `None` if it shows nothing of the key.
fn accepts(response: &Observation) -> Option<bool> {
    let is_known = response.number("x-ratelimit-limit").is_some();
    let is_refused = response.status == StatusCode::UNAUTHORIZED;
    (is_known || is_refused).then_some(is_known)
}

/// What a replica made of a revoked key.
struct Refusal {
    /// From the revocation to the last request that was accepted.
    accepted_until: Duration,
    /// Whether it refused the key in the end.
    is_certain: bool,
}

/// Requests a page until the replica refuses the key.
async fn refusal(
    requests: &Requests,
    replica: &BaseUrl,
    key: &HeaderValue,
    revoked: Instant,
) -> Refusal {
    let (mut accepted_until, mut refusals) = (Duration::ZERO, 0);
    while revoked.elapsed() < PATIENCE {
        let response = requests.get(replica, SAMPLE, key).await.ok();
        match response.as_ref().and_then(|response| Some((response, accepts(response)?))) {
            Some((_, false)) => refusals += 1,
            Some((response, true)) => {
                accepted_until = response.sent.duration_since(revoked);
                refusals = 0;
            }
            // It shows nothing of the key.
            None => {}
        }
        if refusals == REFUSALS {
            break;
        }
        sleep(PAUSE).await;
    }
    Refusal { accepted_until, is_certain: refusals == REFUSALS }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_people_are_not_those_of_the_canary() {
        let at = |second| Timestamp::from_second(second).unwrap();
        assert!(is_of_canary("canary", at(0), Some(at(60))));
        assert!(!is_of_canary("other", at(0), Some(at(60))));
        assert!(!is_of_canary("canary", at(0), None));
        assert!(!is_of_canary("canary", at(0), Some(at(3_600))));
    }

    #[test]
    fn only_a_response_about_the_key_shows_something_of_it() {
        let known = [("x-ratelimit-limit", "30")];
        for (response, expected) in [
            (Observation::of(200, &known), Some(true)),
            (Observation::of(429, &known), Some(true)),
            (Observation::of(401, &[]), Some(false)),
            (Observation::of(502, &[]), None),
        ] {
            assert_eq!(accepts(&response), expected, "{response:?}");
        }
    }
}
