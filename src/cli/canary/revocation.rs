//! Measures how long a revoked key is still accepted: with a key of the canary's own, which expires
//! after a minute in any case.

use std::time::Duration;

use futures_util::future::join_all;
use hyper::header::HeaderValue;
use hyper::{Method, StatusCode};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::report::Outcome;
use super::target::{BaseUrl, Requests, SAMPLE};
use crate::cli::command::CommandError;
use crate::cli::session::ControlSession;
use crate::registry::{READ_SCOPE, Timestamp};

/// The name of the canary's own keys.
pub(in crate::cli) const KEY_NAME: &str = "canary";

/// A revocation applies within this time (docs/staleness.md).
const BOUND: Duration = Duration::from_secs(2);

/// The least time between two of these checks, by all canaries of a user.
const INTERVAL: Duration = Duration::from_secs(3_600);

const LIFETIME: Duration = Duration::from_secs(60);

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
    if let Some(last) = last_check(session).await? {
        let text = format!("it was checked {} min ago, and is once an hour", last.as_secs() / 60);
        return Ok((Outcome::NotChecked(text), None));
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
    let mut broken = Vec::new();
    let refused =
        join_all(replicas.iter().map(|replica| refused_after(requests, replica, &key, revoked)));
    let mut last = Duration::ZERO;
    for ((replica, accepted), refused) in replicas.iter().zip(accepted).zip(refused.await) {
        if !accepted {
            broken.push(format!("{replica}: a new key is not accepted"));
        }
        match refused {
            Some(after) if after <= BOUND + PAUSE => last = last.max(after),
            Some(after) => {
                last = last.max(after);
                broken.push(format!(
                    "{replica}: accepts a revoked key for {:.1} s",
                    after.as_secs_f64()
                ));
            }
            None => broken.push(format!("{replica}: does not refuse a revoked key")),
        }
    }
    let seen = format!("the last replica refused a revoked key after {:.1} s", last.as_secs_f64());
    Ok((Outcome::of(broken, seen), Some(last)))
}

/// How long ago this user's canary created a key, if that is less than an hour.
async fn last_check(session: &mut ControlSession) -> Result<Option<Duration>, CommandError> {
    // Newest first.
    let keys: ListedKeys =
        session.send(Method::GET, "/api-keys?limit=100&offset=0&all=false", None).await?;
    let now = Timestamp::now();
    let ages = keys
        .data
        .iter()
        .filter(|key| key.name == KEY_NAME)
        .map(|key| Duration::try_from(now.duration_since(key.created_at)).unwrap_or_default());
    Ok(ages.min().filter(|age| *age < INTERVAL))
}

/// Whether the replica accepts the key, within the time in which a change applies.
async fn is_accepted(requests: &Requests, replica: &BaseUrl, key: &HeaderValue) -> bool {
    let end = Instant::now() + BOUND;
    loop {
        let response = requests.get(replica, SAMPLE, key).await;
        if response.is_ok_and(|response| response.status != StatusCode::UNAUTHORIZED) {
            return true;
        }
        if Instant::now() >= end {
            return false;
        }
        sleep(PAUSE).await;
    }
}

/// How long after the revocation the replica has begun to refuse the key; `None` if it has not.
async fn refused_after(
    requests: &Requests,
    replica: &BaseUrl,
    key: &HeaderValue,
    revoked: Instant,
) -> Option<Duration> {
    let (mut first, mut refusals) = (None, 0);
    while revoked.elapsed() < PATIENCE {
        let response = requests.get(replica, SAMPLE, key).await;
        match response {
            Ok(response) if response.status == StatusCode::UNAUTHORIZED => {
                first = first.or(Some(response.sent.duration_since(revoked)));
                refusals += 1;
                if refusals == REFUSALS {
                    return first;
                }
            }
            Ok(_) => (first, refusals) = (None, 0),
            // It shows nothing of the key.
            Err(_) => {}
        }
        sleep(PAUSE).await;
    }
    None
}
