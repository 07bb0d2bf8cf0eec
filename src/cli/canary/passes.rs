//! Compares the responses of all replicas to the same requests, a few seconds apart.

use std::time::Duration;

use hyper::StatusCode;
use serde_json::Value;

use super::ages::Found;
use super::target::Observation;

/// How long after one pass the next one begins: longer than a change takes to become visible, and
/// than a response stays confirmed by its own read.
pub(super) const PAUSE: Duration = Duration::from_secs(3);

/// The responses of all replicas to one request, or of one replica to several; `None` if there was none.
pub(super) type Responses = Vec<Option<Observation>>;

/// For each replica, its responses to the same requests: of a page, and of the phenotypes of genes.
pub(super) type Pass = Vec<Responses>;

/// A replica that shows another state than most.
#[derive(Debug, Clone)]
pub(super) struct Deviation {
    pub(super) replica: usize,
    pub(super) request: usize,
    pub(super) shown: Shown,
    pub(super) usual: Shown,
    /// A replica that shows the usual state.
    pub(super) usual_at: usize,
}

/// What a response says that can change only with an entry in the change log.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Shown {
    Value(Value),
    NotFound,
    KeyRefused,
}

impl Deviation {
    fn is_same_as(&self, other: &Self) -> bool {
        let places = [self, other].map(|one| (one.replica, one.request));
        places[0] == places[1] && self.shown == other.shown && self.usual == other.usual
    }
}

/// The replicas that show another state than most, the same two states in each of the passes. A change
/// becomes visible between two passes, so such a difference is no change.
pub(super) fn deviating(passes: &[Pass]) -> Vec<Deviation> {
    let mut found: Option<Vec<_>> = None;
    for pass in passes {
        let mut now = deviating_in(pass);
        if let Some(before) = found {
            now.retain(|one| before.iter().any(|other: &Deviation| other.is_same_as(one)));
        }
        found = Some(now);
    }
    found.unwrap_or_default()
}

fn deviating_in(pass: &Pass) -> Vec<Deviation> {
    let requests = pass.first().map_or(0, Vec::len);
    let mut found = Vec::new();
    for request in 0..requests {
        let response = |of_replica: &Responses| of_replica.get(request)?.as_ref().and_then(facts);
        let facts: Vec<_> = pass.iter().map(response).collect();
        let votes = |one: &Shown| {
            let same = facts.iter().flatten().filter(|other| *other == one).count();
            (*one != Shown::KeyRefused, same)
        };
        let shown =
            facts.iter().enumerate().filter_map(|(replica, one)| Some((replica, one.as_ref()?)));
        // Of two states that as many replicas show, that of the first replica counts as usual.
        let Some((usual_at, usual)) = shown.clone().rev().max_by_key(|(_, one)| votes(one)) else {
            continue;
        };
        found.extend(shown.filter(|(_, one)| *one != usual).map(|(replica, shown)| Deviation {
            replica,
            request,
            shown: shown.clone(),
            usual: usual.clone(),
            usual_at,
        }));
    }
    found
}

/// How many replicas show anything that can be compared.
pub(super) fn comparable(pass: &Pass) -> usize {
    let shows =
        |of_replica: &&Responses| of_replica.iter().flatten().any(|one| facts(one).is_some());
    pass.iter().filter(shows).count()
}

/// `None` for errors.
fn facts(response: &Observation) -> Option<Shown> {
    match response.status {
        StatusCode::OK => {
            let mut body = response.json()?;
            // The order of a page depends on scores, the total does not.
            if let Some(total) = body.get("total") {
                return Some(Shown::Value(total.clone()));
            }
            body.as_object_mut()?.remove("fitness_score");
            Some(Shown::Value(body))
        }
        StatusCode::NOT_FOUND => Some(Shown::NotFound),
        StatusCode::UNAUTHORIZED => Some(Shown::KeyRefused),
        _ => None,
    }
}

/// Whether what was found in the first pass was not found in a cache any more in the second, for each
/// phenotype at this replica. Without a change, and while the change log is read, it would have been.
pub(super) fn is_unconfirmed(replica: usize, first: &Pass, second: &Pass) -> bool {
    let mut pairs = found_twice(replica, first, second).peekable();
    pairs.peek().is_some() && pairs.all(|(first, second)| was_read_since(first, second))
}

/// Whether a phenotype was found in both passes.
pub(super) fn is_comparable(replica: usize, pair: &[Pass]) -> bool {
    matches!(pair, [first, second] if found_twice(replica, first, second).next().is_some())
}

fn found_twice<'p>(
    replica: usize,
    first: &'p Pass,
    second: &'p Pass,
) -> impl Iterator<Item = (&'p Observation, &'p Observation)> {
    let pairs = first[replica].iter().zip(&second[replica]).skip(1);
    pairs
        .filter_map(|(first, second)| Some((first.as_ref()?, second.as_ref()?)))
        .filter(|pair| pair.0.status == StatusCode::OK && pair.1.status == StatusCode::OK)
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

    /// A pass of one gene, without the page.
    fn pass(states: &[Option<&str>]) -> Pass {
        let of = |state: &Option<&str>| {
            state.map(|body| Observation::of(200, &[("age", "0")]).with_body(body))
        };
        states.iter().map(|state| vec![None, of(state)]).collect()
    }

    fn found(passes: &[Pass]) -> Vec<(usize, usize)> {
        deviating(passes).iter().map(|one| (one.replica, one.request)).collect()
    }

    #[test]
    fn a_difference_counts_if_it_remains() {
        let (a, b) = (Some(r#"{"name":"a","fitness_score":1}"#), Some(r#"{"name":"b"}"#));
        let (a_later, c) = (Some(r#"{"name":"a","fitness_score":2}"#), Some(r#"{"name":"c"}"#));
        let different = pass(&[a, b, a_later]);
        assert_eq!(found(std::slice::from_ref(&different)), [(1, 1)]);
        assert_eq!(found(&[different.clone(), different.clone()]), [(1, 1)]);
        assert_eq!(found(&[different.clone(), pass(&[b, b, b])]), []);
        assert_eq!(found(&[different.clone(), pass(&[b, a, a])]), []);
        assert_eq!(found(&[different.clone(), pass(&[a, c, a])]), [], "it changes");
        assert_eq!(found(&[different.clone(), pass(&[c, b, c])]), [], "the others change");
        assert_eq!(found(&[pass(&[a, None, b])]), [(2, 1)], "the first counts as usual");
        assert_eq!(found(&[pass(&[None, None])]), []);
        assert_eq!(found(&[]), []);
        assert_eq!([comparable(&different), comparable(&pass(&[None, a]))], [3, 1]);
    }

    #[test]
    fn a_missing_gene_and_a_refused_key_are_states_too() {
        for (status, shown) in [(404, Shown::NotFound), (401, Shown::KeyRefused)] {
            let there = Observation::of(200, &[]).with_body("{}");
            let other = Observation::of(status, &[]);
            let pass = vec![vec![Some(there.clone())], vec![Some(other)], vec![Some(there)]];
            let found = deviating(&[pass]);
            assert!(matches!(&found[..], [one] if one.replica == 1 && one.shown == shown));
        }
        // It is not the usual state, wherever the replica stands.
        let pass =
            [401, 200].map(|status| vec![Some(Observation::of(status, &[]).with_body("{}"))]);
        let found = deviating(&[pass.to_vec()]);
        assert!(matches!(&found[..], [one] if (one.replica, one.usual_at) == (0, 1)), "{found:?}");
    }

    #[test]
    fn pages_are_compared_by_their_total() {
        let page = |body| vec![Some(Observation::of(200, &[]).with_body(body))];
        let [a, b] = [page(r#"{"data":[1],"total":3}"#), page(r#"{"data":[2],"total":3}"#)];
        let c = page(r#"{"data":[1],"total":4}"#);
        assert_eq!(found(&[vec![a, b, c]]), [(2, 0)]);
    }

    #[test]
    fn what_stays_in_the_cache_is_confirmed() {
        let at = |seconds, age: &str, status: &str| {
            let headers = [("age", age), ("cache-status", status)];
            let later = Observation::of(200, &headers).later(Duration::from_secs(seconds));
            vec![vec![None, Some(later)]]
        };
        let hit = "gene-registry; hit; ttl=200; detail=local";
        let unconfirmed = "gene-registry; hit; ttl=200; detail=unconfirmed";
        let first = at(0, "0", "gene-registry; fwd=miss");
        assert!(!is_unconfirmed(0, &first, &at(3, "3", hit)));
        assert!(is_unconfirmed(0, &first, &at(3, "0", "gene-registry; fwd=miss")));
        assert!(is_unconfirmed(0, &first, &at(3, "2", hit)), "read within three seconds");
        assert!(is_unconfirmed(0, &first, &at(3, "3", unconfirmed)));
        let failed = vec![vec![None, None]];
        assert!(!is_unconfirmed(0, &first, &failed) && !is_comparable(0, &[first, failed]));
    }
}
