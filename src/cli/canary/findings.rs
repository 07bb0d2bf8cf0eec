//! What the responses of a round show of each promise.

use std::fmt;

use hyper::StatusCode;

use super::ages::{AgeBounds, Kind, violation};
use super::clock;
use super::passes::{
    PAUSE, Pass, Responses, Shown, comparable, deviating, is_comparable, is_unconfirmed,
};
use super::report::Outcome;
use super::target::{BaseUrl, Observation};
use crate::config::CacheConfig;
use crate::registry::GeneId;

/// What is wrong at the replicas.
#[derive(Debug, Default)]
pub(super) struct Faults {
    pub(super) texts: Vec<String>,
    judged: usize,
}

impl Faults {
    /// Adds a fault, once.
    pub(super) fn add(&mut self, replica: &BaseUrl, text: impl fmt::Display) {
        let text = format!("{replica}: {text}");
        if !self.texts.contains(&text) {
            self.texts.push(text);
        }
    }

    /// `kept` is told how many responses were judged.
    pub(super) fn outcome(self, kept: impl FnOnce(usize) -> String) -> Outcome {
        Outcome::of(self.texts, kept(self.judged))
    }
}

/// Compares the responses of the replicas, which are of one kind or errors, with the bounds of their
/// ages.
pub(super) fn judge<'o>(
    faults: &mut Faults,
    replicas: &[BaseUrl],
    (kind, bounds): (Kind, &AgeBounds<'_>),
    responses: impl Iterator<Item = Option<&'o Observation>>,
) {
    for (replica, response) in replicas.iter().zip(responses) {
        let Some(response) = response else { continue };
        let kind = if response.status == StatusCode::OK { kind } else { Kind::Error };
        faults.judged += 1;
        if let Some(text) = violation(kind, response, bounds) {
            faults.add(replica, text);
        }
    }
}

pub(super) fn change_log(replicas: &[BaseUrl], passes: &[Pass], cache: &CacheConfig) -> Outcome {
    if cache.phenotype.fresh_s < 3 * PAUSE.as_secs() {
        return Outcome::NotChecked("phenotypes are not cached for long enough".to_owned());
    }
    let (mut faults, mut compared) = (Faults::default(), 0);
    for (number, replica) in replicas.iter().enumerate() {
        let mut pairs = passes.windows(2);
        compared += usize::from(passes.windows(2).any(|pair| is_comparable(number, pair)));
        if pairs.len() >= 2 && pairs.all(|pair| is_unconfirmed(number, &pair[0], &pair[1])) {
            let text = "cached phenotypes are not confirmed and are read again: polls of the change \
                        log fail or hang, or all of these genes change";
            faults.add(replica, text);
        }
    }
    if compared == 0 {
        return Outcome::NotChecked("no phenotype was found twice".to_owned());
    }
    faults.outcome(|_| format!("cached phenotypes stay confirmed (replicas: {compared})"))
}

pub(super) fn clocks(replicas: &[BaseUrl], pages: &Responses) -> Outcome {
    let mut faults = Faults::default();
    for (replica, page) in replicas.iter().zip(pages) {
        if let Some(text) = page.as_ref().and_then(clock::fault) {
            faults.add(replica, text);
        }
    }
    faults.outcome(|_| "all clocks are right".to_owned())
}

pub(super) fn agreement(replicas: &[BaseUrl], passes: &[Pass], genes: &[GeneId]) -> Outcome {
    if replicas.len() < 2 {
        return Outcome::NotChecked("it needs two replicas".to_owned());
    }
    if passes.last().map_or(0, comparable) < 2 {
        return Outcome::NotChecked("fewer than two replicas show genes".to_owned());
    }
    let mut faults = Faults::default();
    // Without a third pass, the second one showed no difference that remained.
    for deviation in deviating(passes).into_iter().filter(|_| passes.len() > 2) {
        let (other, shown) = (&replicas[deviation.usual_at], &deviation.shown);
        let text = match deviation.request.checked_sub(1).and_then(|gene| genes.get(gene)) {
            _ if *shown == Shown::KeyRefused => {
                format!("does not know the key that {other} accepts")
            }
            Some(gene) if *shown == Shown::NotFound => format!("lacks the gene {gene} of {other}"),
            Some(gene) if deviation.usual == Shown::NotFound => {
                format!("shows the gene {gene}, which {other} lacks")
            }
            Some(gene) => format!("shows the gene {gene} otherwise than {other}"),
            None => format!("shows another number of genes than {other}"),
        };
        faults.add(&replicas[deviation.replica], text);
    }
    let (compared, genes) = (passes.last().map_or(0, comparable), genes.len());
    faults.outcome(|_| {
        format!("the number of genes and {genes} of them are the same (replicas: {compared})")
    })
}
