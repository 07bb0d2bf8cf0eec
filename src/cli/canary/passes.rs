//! Compares the responses of all replicas to the same requests, a few seconds apart.

use std::time::Duration;

use hyper::StatusCode;
use serde_json::Value;

use super::ages::Found;
use super::target::Observation;

/// How long after one pass the next one begins: longer than a change takes to become visible, and
/// than a response stays confirmed by its own read.
pub(super) const PAUSE: Duration = Duration::from_secs(3);

/// For each replica, its responses to the same requests; `None` if there was none.
pub(super) type Pass = Vec<Vec<Option<Observation>>>;

/// The replicas that show another state than most, in each of the passes, with the number of the
/// request. A change becomes visible between two passes, so a difference that remains is no change.
pub(super) fn deviating(passes: &[Pass]) -> Vec<(usize, usize)> {
    let mut found: Option<Vec<_>> = None;
    for pass in passes {
        let mut now = deviating_in(pass);
        if let Some(before) = found {
            now.retain(|one| before.contains(one));
        }
        found = Some(now);
    }
    found.unwrap_or_default()
}

fn deviating_in(pass: &Pass) -> Vec<(usize, usize)> {
    let requests = pass.first().map_or(0, Vec::len);
    let mut found = Vec::new();
    for request in 0..requests {
        let facts: Vec<_> = pass
            .iter()
            .map(|of_replica| of_replica.get(request)?.as_ref().and_then(facts))
            .collect();
        let votes = |one: &Option<_>| facts.iter().filter(|other| *other == one).count();
        // Of two states that as many replicas show, that of the first replica counts as usual.
        let known = facts.iter().filter(|facts| facts.is_some());
        let Some(usual) = known.rev().max_by_key(|one| votes(one)) else { continue };
        let others = facts.iter().enumerate().filter(|(_, one)| one.is_some() && *one != usual);
        found.extend(others.map(|(replica, _)| (replica, request)));
    }
    found
}

/// What a response says that can change only with an entry in the change log; `None` for errors.
fn facts(response: &Observation) -> Option<Value> {
    match response.status {
        StatusCode::OK => {
            let mut body = response.json()?;
            body.as_object_mut()?.remove("fitness_score");
            Some(body)
        }
        StatusCode::NOT_FOUND => Some(Value::Null),
        _ => None,
    }
}

/// Whether what was found in the first pass was not found in a cache any more in the second, for each
/// request to this replica. Without a change, and while the change log is read, it would have been.
pub(super) fn is_unconfirmed(replica: usize, first: &Pass, second: &Pass) -> bool {
    let pairs: Vec<_> = first[replica]
        .iter()
        .zip(&second[replica])
        .filter_map(|(first, second)| Some((first.as_ref()?, second.as_ref()?)))
        .filter(|pair| pair.0.status == StatusCode::OK && pair.1.status == StatusCode::OK)
        .collect();
    !pairs.is_empty() && pairs.iter().all(|(first, second)| was_read_since(first, second))
}

/// Whether the second response was read after the first one had been received, or is unconfirmed.
fn was_read_since(first: &Observation, second: &Observation) -> bool {
    let Some(age) = second.number("age") else { return false };
    // `Age` is rounded down.
    let oldest = Duration::from_secs(age + 1);
    Found::of(second) == Some(Found::Unconfirmed)
        || second.sent.duration_since(first.received) >= oldest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pass(states: &[Option<&str>]) -> Pass {
        let of = |state: &Option<&str>| {
            state.map(|body| Observation::of(200, &[("age", "0")]).with_body(body))
        };
        states.iter().map(|state| vec![of(state)]).collect()
    }

    #[test]
    fn a_difference_counts_if_it_remains() {
        let (a, b) = (Some(r#"{"name":"a","fitness_score":1}"#), Some(r#"{"name":"b"}"#));
        let a_later = Some(r#"{"name":"a","fitness_score":2}"#);
        let different = pass(&[a, b, a_later]);
        assert_eq!(deviating(std::slice::from_ref(&different)), [(1, 0)]);
        assert_eq!(deviating(&[different.clone(), different.clone()]), [(1, 0)]);
        assert_eq!(deviating(&[different.clone(), pass(&[b, b, b])]), []);
        assert_eq!(deviating(&[different.clone(), pass(&[b, a, a])]), []);
        assert_eq!(deviating(&[pass(&[a, None, b])]), [(2, 0)], "the first counts as usual");
        assert_eq!(deviating(&[pass(&[None, None])]), []);
        assert_eq!(deviating(&[]), []);
    }

    #[test]
    fn a_missing_gene_is_a_state_too() {
        let there = Observation::of(200, &[]).with_body("{}");
        let pass = vec![
            vec![Some(there.clone())],
            vec![Some(Observation::of(404, &[]))],
            vec![Some(there)],
        ];
        assert_eq!(deviating(&[pass]), [(1, 0)]);
    }

    #[test]
    fn what_stays_in_the_cache_is_confirmed() {
        let at = |seconds, age: &str, status: &str| {
            let headers = [("age", age), ("cache-status", status)];
            vec![vec![Some(Observation::of(200, &headers).later(Duration::from_secs(seconds)))]]
        };
        let hit = "gene-registry; hit; ttl=200; detail=local";
        let unconfirmed = "gene-registry; hit; ttl=200; detail=unconfirmed";
        let first = at(0, "0", "gene-registry; fwd=miss");
        assert!(!is_unconfirmed(0, &first, &at(3, "3", hit)));
        assert!(is_unconfirmed(0, &first, &at(3, "0", "gene-registry; fwd=miss")));
        assert!(is_unconfirmed(0, &first, &at(3, "2", hit)), "read within three seconds");
        assert!(is_unconfirmed(0, &first, &at(3, "3", unconfirmed)));
        let failed = vec![vec![None]];
        assert!(!is_unconfirmed(0, &first, &failed));
    }
}
