//! What the checker's writer did and what its readers observed, and the rules between the two.
//!
//! Every state of a gene has a unique version, so a response tells which state it shows; only the
//! states in which a gene is unpublished look the same.

use std::collections::HashMap;
use std::fmt;
use std::time::Duration;

use tokio::time::Instant;

/// A state of one gene. Its transaction was committed at some moment between `began` and `done`.
#[derive(Debug, Clone, Copy)]
pub(super) struct GeneState {
    /// Its version; `None` while the gene is unpublished.
    pub(super) version: Option<u64>,
    pub(super) began: Instant,
    pub(super) done: Instant,
}

/// What one response showed of one gene.
#[derive(Debug, Clone)]
pub(super) struct Observation {
    pub(super) replica: usize,
    /// The request. A reader repeats it only after the previous response.
    pub(super) request: String,
    pub(super) gene: usize,
    pub(super) version: Option<u64>,
    pub(super) begun: Instant,
    pub(super) ended: Instant,
}

/// The periods in which a condition held; the last one may be open.
#[derive(Debug, Default, Clone)]
pub(super) struct Periods(pub(super) Vec<(Instant, Option<Instant>)>);

impl Periods {
    pub(super) fn begin(&mut self) {
        if !matches!(self.0.last(), Some((_, None))) {
            self.0.push((Instant::now(), None));
        }
    }

    pub(super) fn end(&mut self) {
        if let Some((_, end @ None)) = self.0.last_mut() {
            *end = Some(Instant::now());
        }
    }

    /// Whether any period overlaps the interval from `from` to `to`.
    pub(super) fn overlaps(&self, from: Instant, to: Instant) -> bool {
        self.0.iter().any(|(begin, end)| *begin <= to && end.is_none_or(|end| end >= from))
    }
}

/// The bounds that must hold.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    /// The time within which a change must be visible to a replica that can read the log.
    pub(super) seen: Duration,
    /// The maximum age of a response, for each request.
    pub(super) max_age: fn(&str) -> Duration,
}

/// A violation of a rule.
#[derive(Debug)]
pub(super) struct Violation {
    pub(super) rule: &'static str,
    pub(super) observation: Observation,
    /// The states of the gene around the observation.
    around: Vec<(usize, GeneState)>,
    start: Instant,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = |moment: Instant| moment.duration_since(self.start).as_secs_f64();
        let Observation { replica, request, gene, version, begun, ended } = &self.observation;
        write!(f, "{}: replica {replica}, {request}: gene {gene} is {version:?}", self.rule)?;
        write!(f, ", requested at {:.3} s, received at {:.3} s; states:", at(*begun), at(*ended))?;
        self.around.iter().try_for_each(|(number, state)| {
            let (began, done) = (at(state.began), at(state.done));
            write!(f, " {number}: {:?} from {began:.3}..{done:.3};", state.version)
        })
    }
}

/// Everything that the rules need.
pub(super) struct History {
    pub(super) start: Instant,
    /// The states of each gene, in the order of their commits.
    pub(super) genes: Vec<Vec<GeneState>>,
    /// The periods in which each replica could not reach Postgres.
    pub(super) unreachable: Vec<Periods>,
    /// When this machine was delayed, and by how much.
    pub(super) delays: Vec<(Instant, Duration)>,
}

impl History {
    /// Whether a replica could reach Postgres for `margin` before a request, and during it.
    pub(super) fn is_connected(
        &self,
        replica: usize,
        begun: Instant,
        ended: Instant,
        margin: Duration,
    ) -> bool {
        !self.unreachable[replica].overlaps(begun - margin - self.max_delay(begun, ended), ended)
    }

    /// Twice the largest delay of this machine around a request: a bound is extended by it, since a
    /// machine that stands still can meet none.
    pub(super) fn max_delay(&self, begun: Instant, ended: Instant) -> Duration {
        let around = |at: &Instant| *at + Duration::from_secs(5) >= begun && *at <= ended;
        let delays = self.delays.iter().filter(|(at, _)| around(at)).map(|(_, delays)| *delays);
        delays.max().unwrap_or_default() * 2
    }

    /// All violations. `observations` are in the order in which each reader made them.
    pub(super) fn violations(
        &self,
        bounds: &Bounds,
        observations: &[Observation],
    ) -> Vec<Violation> {
        let mut newest: HashMap<(usize, &str, usize), usize> = HashMap::new();
        let mut violations = Vec::new();
        for observation in observations {
            let reader = (observation.replica, observation.request.as_str(), observation.gene);
            let known = newest.entry(reader).or_insert(0);
            let mut rules = Vec::new();
            let states = self.possible_states(observation);
            if states.is_empty() {
                violations
                    .push(self.violation("a state that never existed, or not yet", observation));
                continue;
            }
            // Ambiguity counts in the service's favour: all unpublished states look the same.
            if states.iter().all(|state| {
                self.ended_before(observation, *state, (bounds.max_age)(&observation.request))
            }) {
                rules.push("older than the maximum age");
            }
            let healthy = self.is_connected(
                observation.replica,
                observation.begun,
                observation.ended,
                bounds.seen,
            );
            if healthy
                && states.iter().all(|state| self.ended_before(observation, *state, bounds.seen))
            {
                rules.push("the state before a change that must be visible");
            }
            match states.iter().find(|state| *state >= known) {
                Some(state) => *known = *state,
                None => rules.push("from an earlier read than the previous response"),
            }
            violations.extend(rules.into_iter().map(|rule| self.violation(rule, observation)));
        }
        violations
    }

    /// The states that the response may have shown.
    fn possible_states(&self, observation: &Observation) -> Vec<usize> {
        let shown = |state: &GeneState| {
            state.version == observation.version && state.began <= observation.ended
        };
        let states = self.genes[observation.gene].iter().enumerate();
        states.filter(|(_, state)| shown(state)).map(|(number, _)| number).collect()
    }

    /// Whether a state had ended at least `bound` before the request began.
    fn ended_before(&self, observation: &Observation, state: usize, bound: Duration) -> bool {
        let bound = bound + self.max_delay(observation.begun, observation.ended);
        let next = self.genes[observation.gene].get(state + 1);
        next.is_some_and(|next| next.done + bound < observation.begun)
    }

    fn violation(&self, rule: &'static str, observation: &Observation) -> Violation {
        let states = &self.genes[observation.gene];
        let near = |state: &GeneState| {
            state.version == observation.version
                || state.done + Duration::from_secs(6) > observation.begun
                    && state.began <= observation.ended
        };
        let around = states.iter().copied().enumerate().filter(|(_, state)| near(state));
        Violation {
            rule,
            observation: observation.clone(),
            around: around.collect(),
            start: self.start,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: Bounds =
        Bounds { seen: Duration::from_secs(2), max_age: |_| Duration::from_secs(20) };

    /// A gene with version 1, unpublished from second 10 on, with version 2 from second 20 on.
    fn history() -> History {
        let start = Instant::now();
        let state = |version, second| {
            let at = start + Duration::from_secs(second);
            GeneState { version, began: at, done: at }
        };
        History {
            start,
            genes: vec![vec![state(Some(1), 0), state(None, 10), state(Some(2), 20)]],
            unreachable: vec![Periods::default()],
            delays: Vec::new(),
        }
    }

    fn rules(history: &History, seen: &[(f64, Option<u64>)]) -> Vec<&'static str> {
        let observation = |(second, version): &(f64, Option<u64>)| {
            let at = history.start + Duration::from_secs_f64(*second);
            let request = "/genes".to_owned();
            Observation { replica: 0, request, gene: 0, version: *version, begun: at, ended: at }
        };
        let observations: Vec<Observation> = seen.iter().map(observation).collect();
        history.violations(&BOUNDS, &observations).iter().map(|violation| violation.rule).collect()
    }

    #[test]
    fn the_checker_finds_every_kind_of_violation() {
        let mut history = history();
        let delays = "the state before a change that must be visible";
        assert_eq!(rules(&history, &[(5.0, Some(1)), (11.9, Some(1))]), [""; 0]);
        assert_eq!(rules(&history, &[(12.0, None), (21.9, None), (21.0, Some(2))]), [""; 0]);
        assert_eq!(rules(&history, &[(12.1, Some(1))]), [delays]);
        assert_eq!(rules(&history, &[(22.1, None)]), [delays]);
        let back = "from an earlier read than the previous response";
        assert_eq!(rules(&history, &[(10.5, None), (10.6, Some(1))]), [back]);
        assert_eq!(rules(&history, &[(20.5, Some(2)), (20.6, None)]), [back]);
        let never = "a state that never existed, or not yet";
        assert_eq!(rules(&history, &[(19.0, Some(2))]), [never]);
        let cut = history.start + Duration::from_secs(9);
        history.unreachable[0].0.push((cut, Some(cut + Duration::from_secs(30))));
        assert_eq!(rules(&history, &[(12.1, Some(1)), (29.0, Some(1))]), [""; 0]);
        assert_eq!(rules(&history, &[(30.1, Some(1))]), ["older than the maximum age"]);
    }
}
