//! The rules of currency, and the violations of them that a run's observations show.

use std::collections::HashMap;
use std::fmt;
use std::iter;
use std::rc::Rc;
use std::time::Duration;

use tokio::time::Instant;

use super::history::{History, Observation, SubjectState, VISIBLE_WITHIN};

/// Ages of responses are right to this many seconds.
const AGE_TOLERANCE: f64 = 3.0;

/// States that ended this long before a request are not part of a violation's description.
const DESCRIBED: Duration = Duration::from_secs(8);

const BACK: &str = "from an earlier read than the previous response";

/// The number of earlier observations that explain a wrong order.
const BEFORE: usize = 6;

/// A violation of a rule.
#[derive(Debug)]
pub(super) struct Violation {
    pub(super) rule: &'static str,
    observation: Observation,
    /// What the same reader saw before, the newest first, if the order is wrong.
    before: Vec<Observation>,
    /// The states of the subject around the observation.
    around: Vec<(usize, SubjectState)>,
    start: Instant,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = |moment: Instant| moment.duration_since(self.start).as_secs_f64();
        let Observation { replica, request, subject, .. } = &self.observation;
        write!(f, "{}: replica {replica}, {request}: {subject} is ", self.rule)?;
        for (index, observation) in iter::once(&self.observation).chain(&self.before).enumerate() {
            let Observation { version, age, source, .. } = observation;
            let (begun, ended) = (at(observation.begun), at(observation.ended));
            let words = if index == 0 { "" } else { "; before that, " };
            write!(f, "{words}{version:?}, age {age:?}, {begun:.3}..{ended:.3} s ({source})")?;
        }
        self.around.iter().try_for_each(|(number, state)| {
            let (began, done) = (at(state.began), at(state.done));
            write!(f, "; state {number}: {:?} from {began:.3}..{done:.3}", state.version)
        })
    }
}

/// The rules, with what they remember of earlier observations.
pub(super) struct Rules<'a> {
    history: &'a History,
    max_age: &'a dyn Fn(&str) -> Duration,
    /// The newest state that each reader has seen of each subject.
    newest: HashMap<(usize, Rc<str>, usize), usize>,
    /// For each replica and subject, when a response first showed it as deleted or revoked, and the earliest
    /// state that this may have been.
    deleted: HashMap<(usize, usize), (Instant, usize)>,
}

impl<'a> Rules<'a> {
    /// `max_age` is the maximum age of a response, for each request.
    pub(super) fn new(history: &'a History, max_age: &'a dyn Fn(&str) -> Duration) -> Self {
        Self { history, max_age, newest: HashMap::new(), deleted: HashMap::new() }
    }

    /// All violations. `observations` are in the order in which each reader made them.
    pub(super) fn violations(mut self, observations: &[Observation]) -> Vec<Violation> {
        let mut violations = Vec::new();
        for (index, observation) in observations.iter().enumerate() {
            let states = self.history.possible_states(observation);
            let rules = if states.is_empty() {
                vec!["a state that never existed, or not yet"]
            } else {
                let late = self.broken_by_delay(observation, &states);
                let order = self.broken_by_order(observation, &states);
                let age = self.broken_by_age(observation, &states);
                [late, order, age].into_iter().flatten().collect()
            };
            let before = &observations[..index];
            let violation = |rule| self.violation(rule, observation, before);
            violations.extend(rules.into_iter().map(violation));
        }
        violations
    }

    /// Ambiguity counts in the service's favour: all unpublished states look the same.
    fn broken_by_delay(&self, observation: &Observation, states: &[usize]) -> Option<&'static str> {
        let (history, request) = (self.history, (observation.begun, observation.ended));
        let ended =
            |bound| states.iter().all(|state| history.ended_before(observation, *state, bound));
        let max_age = (self.max_age)(&observation.request);
        if history.visible_within(observation.slot, request).is_some_and(ended) {
            return Some("the state before a change that must be visible");
        }
        // Entries of the shared cache age by the database's clock.
        let stepped = history.database_stepped(observation, max_age);
        (!stepped && ended(max_age)).then_some("older than the maximum age")
    }

    fn broken_by_order(
        &mut self,
        observation: &Observation,
        states: &[usize],
    ) -> Option<&'static str> {
        let reader = (observation.replica, Rc::clone(&observation.request), observation.subject);
        let known = self.newest.entry(reader).or_insert(0);
        match states.iter().find(|state| *state >= known) {
            Some(state) => *known = *state,
            None => return Some(BACK),
        }
        let gene = (observation.replica, observation.subject);
        match (observation.version, self.deleted.get(&gene)) {
            (None, known) => {
                if known.is_none_or(|(_, state)| *state < states[0]) {
                    self.deleted.insert(gene, (observation.ended, states[0]));
                }
                None
            }
            (Some(_), Some((seen, deleted))) => (states.iter().all(|state| state < deleted)
                && self.was_polled(observation, *seen))
            .then_some("a deleted gene or revoked key that this replica knew as such"),
            (Some(_), None) => None,
        }
    }

    /// Whether the replica of an observation could read the log within two seconds after a moment
    /// long before it, so that it learned of every earlier change.
    fn was_polled(&self, observation: &Observation, since: Instant) -> bool {
        let (history, slot) = (self.history, observation.slot);
        let until = since + VISIBLE_WITHIN + history.max_delay(since, since + VISIBLE_WITHIN);
        until < observation.begun
            && !history.is_blocked(slot, (since, until), Duration::ZERO)
            && !history.log_unreadable.overlaps(since, until)
    }

    fn broken_by_age(&self, observation: &Observation, states: &[usize]) -> Option<&'static str> {
        let (history, age) = (self.history, observation.age? as f64);
        let delay = history.max_delay(observation.begun, observation.ended);
        let max_age = (self.max_age)(&observation.request);
        if age > (max_age + delay).as_secs_f64() {
            return Some("an Age above the maximum");
        }
        let request = (observation.begun, observation.ended);
        let memory = Duration::from_secs(20);
        let polled =
            !history.log_unreadable.overlaps(observation.begun - memory, observation.ended)
                && !history.is_blocked(observation.slot, request, memory);
        if history.database_stepped(observation, max_age) || observation.version.is_none() {
            return None;
        }
        let subject = &history.subjects[observation.subject];
        let seconds = |from: Instant, to: Instant| to.saturating_duration_since(from).as_secs_f64();
        // Read after the state began, and before the next one began.
        let oldest = states.iter().map(|state| seconds(subject[*state].began, observation.ended));
        let youngest = states.iter().map(|state| {
            subject.get(state + 1).map_or(0.0, |next| seconds(next.done, observation.begun))
        });
        let (oldest, youngest) = (oldest.fold(0.0, f64::max), youngest.fold(f64::MAX, f64::min));
        let tolerance = AGE_TOLERANCE + delay.as_secs_f64();
        if polled && age > oldest + tolerance {
            return Some("an Age above the true one");
        }
        (age + tolerance < youngest).then_some("an Age below the true one")
    }

    fn violation(
        &self,
        rule: &'static str,
        observation: &Observation,
        before: &[Observation],
    ) -> Violation {
        let states = &self.history.subjects[observation.subject];
        let near = |state: &SubjectState| {
            state.done + DESCRIBED > observation.begun && state.began <= observation.ended
        };
        let shown = self.history.possible_states(observation).last().copied();
        let around = states.iter().copied().enumerate();
        let reader = |one: &Observation| (one.replica, Rc::clone(&one.request), one.subject);
        let is_same = |one: &&Observation| reader(one) == reader(observation);
        let before =
            before.iter().rev().filter(is_same).take(if rule == BACK { BEFORE } else { 0 });
        Violation {
            rule,
            observation: observation.clone(),
            before: before.cloned().collect(),
            around: around.filter(|(number, s)| near(s) || Some(*number) == shown).collect(),
            start: self.history.start,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::history::Periods;
    use super::*;

    const LATE: &str = "the state before a change that must be visible";

    /// A gene with version 1, unpublished from second 10 on, with version 2 from second 20 on.
    fn history() -> History {
        let mut history = History::new(Instant::now() - Duration::from_secs(100), 1, 1);
        let state = |version, second| {
            let at = history.start + Duration::from_secs(second);
            SubjectState { version, began: at, done: at }
        };
        history.subjects = vec![vec![state(Some(1), 0), state(None, 10), state(Some(2), 20)]];
        history
    }

    /// Observations of one reader: second, version, age.
    fn broken(history: &History, seen: &[(f64, Option<u64>, u64)]) -> Vec<&'static str> {
        let observation = |(second, version, age): &(f64, Option<u64>, u64)| {
            let at = history.start + Duration::from_secs_f64(*second);
            Observation {
                replica: 0,
                slot: 0,
                request: "/genes".into(),
                subject: 0,
                version: *version,
                begun: at,
                ended: at,
                age: Some(*age),
                source: "".into(),
            }
        };
        let observations: Vec<Observation> = seen.iter().map(observation).collect();
        let rules = Rules::new(history, &|_| Duration::from_secs(20));
        rules.violations(&observations).iter().map(|violation| violation.rule).collect()
    }

    #[test]
    fn late_and_reversed_states_are_found() {
        let history = history();
        assert_eq!(broken(&history, &[(5.0, Some(1), 0), (11.9, Some(1), 2)]), [""; 0]);
        assert_eq!(broken(&history, &[(12.0, None, 0), (21.9, None, 0)]), [""; 0]);
        assert_eq!(broken(&history, &[(12.1, Some(1), 2)]), [LATE]);
        assert_eq!(broken(&history, &[(22.1, None, 2)]), [LATE]);
        assert_eq!(broken(&history, &[(10.5, None, 0), (10.6, Some(1), 0)]), [BACK]);
        assert_eq!(broken(&history, &[(20.5, Some(2), 0), (20.6, None, 0)]), [BACK]);
        let never = "a state that never existed, or not yet";
        assert_eq!(broken(&history, &[(19.0, Some(2), 0)]), [never]);
    }

    #[test]
    fn faults_excuse_what_they_can_explain() {
        let period = |history: &History, from, to| {
            let at = |second| history.start + Duration::from_secs(second);
            Periods(vec![(at(from), Some(at(to)))])
        };
        let mut unreachable = history();
        unreachable.unreachable[0] = period(&unreachable, 9, 39);
        assert_eq!(broken(&unreachable, &[(12.1, Some(1), 3), (29.0, Some(1), 29 - 10)]), [""; 0]);
        assert_eq!(broken(&unreachable, &[(30.1, Some(1), 20)]), ["older than the maximum age"]);
        let mut unreadable = history();
        unreadable.log_unreadable = period(&unreadable, 9, 39);
        assert_eq!(broken(&unreadable, &[(14.9, Some(1), 5)]), [""; 0]);
        assert_eq!(broken(&unreadable, &[(15.1, Some(1), 5)]), [LATE]);
    }

    #[test]
    fn wrong_ages_are_found() {
        let mut history = history();
        assert_eq!(broken(&history, &[(5.0, Some(1), 8)]), [""; 0]);
        assert_eq!(broken(&history, &[(5.0, Some(1), 9)]), ["an Age above the true one"]);
        assert_eq!(broken(&history, &[(30.0, Some(2), 21)]), ["an Age above the maximum"]);
        history.unreachable[0].0.push((history.start, None));
        assert_eq!(broken(&history, &[(16.0, Some(1), 1)]), ["an Age below the true one"]);
    }
}
