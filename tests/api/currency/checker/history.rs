//! What a run did and what its readers observed: the states of each subject, the faults, and the
//! responses. [`super::rules`] judges them.
//!
//! A subject is a gene or an API key. Every state of a gene has a unique version, so a response
//! tells which state it shows; only the states in which it is unpublished look the same. A key has
//! two states, valid (version 0) and revoked.

use std::rc::Rc;
use std::time::Duration;

use tokio::time::Instant;

/// A change must be visible within this time to a replica that can read the log.
pub(super) const VISIBLE_WITHIN: Duration = Duration::from_secs(2);

/// A change must be visible within this time while the log cannot be read, but the rest of the
/// database can: two seconds in which the last poll counts, two until the next read of an
/// unconfirmed entry, and one for that read.
pub(super) const UNCONFIRMED_WITHIN: Duration = Duration::from_secs(5);

/// Delays of the machine this long before a request extend the bounds of its response.
const DELAY_MEMORY: Duration = Duration::from_secs(5);

/// A state of one subject. Its transaction was committed at some moment between `began` and `done`.
#[derive(Debug, Clone, Copy)]
pub(super) struct SubjectState {
    /// Its version; `None` while the gene is unpublished or the key revoked.
    pub(super) version: Option<u64>,
    pub(super) began: Instant,
    pub(super) done: Instant,
}

/// What one response showed of one subject.
#[derive(Debug, Clone)]
pub(super) struct Observation {
    /// The number of the process.
    pub(super) replica: usize,
    /// The place of the process in the world, which its connections belong to.
    pub(super) slot: usize,
    /// The request. A reader repeats it only after the previous response.
    pub(super) request: Rc<str>,
    pub(super) subject: usize,
    pub(super) version: Option<u64>,
    pub(super) begun: Instant,
    pub(super) ended: Instant,
    /// The header `Age`, in seconds.
    pub(super) age: Option<u64>,
    /// The header `Cache-Status`.
    pub(super) source: Rc<str>,
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

/// Everything that the rules need to know about a run.
#[derive(Debug)]
pub(super) struct History {
    pub(super) start: Instant,
    /// The states of each subject, in the order of their commits. What a promotion lost is followed
    /// by the state that the new primary had.
    pub(super) subjects: Vec<Vec<SubjectState>>,
    /// For each slot, the periods in which its replica could not reach Postgres.
    pub(super) unreachable: Vec<Periods>,
    /// For each slot, the periods in which its replica could not reach Redis.
    pub(super) without_redis: Vec<Periods>,
    /// From the death of a primary to the end of the promotion.
    pub(super) primary_down: Periods,
    /// The periods in which the tables of the registry were locked.
    pub(super) tables_locked: Periods,
    /// The periods in which the change log could not be read, or was very large.
    pub(super) log_unreadable: Periods,
    /// The periods in which more changes were logged than a replica remembers one by one.
    pub(super) log_overflowed: Periods,
    /// The steps of the database's clock, in seconds.
    pub(super) database_steps: Vec<(Instant, i64)>,
    /// When this machine was delayed, and by how much, in the order of time.
    pub(super) delays: Vec<(Instant, Duration)>,
}

impl History {
    pub(super) fn new(start: Instant, subjects: usize, slots: usize) -> Self {
        let first = SubjectState { version: Some(0), began: start, done: start };
        Self {
            start,
            subjects: vec![vec![first]; subjects],
            unreachable: vec![Periods::default(); slots],
            without_redis: vec![Periods::default(); slots],
            primary_down: Periods::default(),
            tables_locked: Periods::default(),
            log_unreadable: Periods::default(),
            log_overflowed: Periods::default(),
            database_steps: Vec::new(),
            delays: Vec::new(),
        }
    }

    /// Seconds since the start of the run.
    pub(super) fn seconds(&self, at: Instant) -> f64 {
        at.saturating_duration_since(self.start).as_secs_f64()
    }

    /// Adds a state whose commit began at `began` and has just been acknowledged.
    pub(super) fn add_state(&mut self, subject: usize, version: Option<u64>, began: Instant) {
        let states = &mut self.subjects[subject];
        let last = states.last().map(|state| state.version);
        // A state that repeats the one before it is the same state.
        if last != Some(version) {
            states.push(SubjectState { version, began, done: Instant::now() });
        }
    }

    /// Whether a replica could not read the registry's tables at some moment from `margin` before a
    /// request until its response.
    pub(super) fn is_blocked(
        &self,
        slot: usize,
        (begun, ended): (Instant, Instant),
        margin: Duration,
    ) -> bool {
        let from = begun - margin - self.max_delay(begun, ended);
        [&self.unreachable[slot], &self.primary_down, &self.tables_locked]
            .iter()
            .any(|periods| periods.overlaps(from, ended))
    }

    /// The time within which changes before a request had to be visible in its response; `None` if
    /// there is no such time.
    pub(super) fn visible_within(
        &self,
        slot: usize,
        (begun, ended): (Instant, Instant),
    ) -> Option<Duration> {
        let from = begun - UNCONFIRMED_WITHIN - self.max_delay(begun, ended);
        let unreadable = self.log_unreadable.overlaps(from, ended);
        let bound = if unreadable { UNCONFIRMED_WITHIN } else { VISIBLE_WITHIN };
        (!self.is_blocked(slot, (begun, ended), bound)).then_some(bound)
    }

    /// Twice the largest delay of this machine around a request: a bound is extended by it, since a
    /// machine that stands still can meet none.
    pub(super) fn max_delay(&self, begun: Instant, ended: Instant) -> Duration {
        let first = self.delays.partition_point(|(at, _)| *at + DELAY_MEMORY < begun);
        let around = self.delays[first..].iter().take_while(|(at, _)| *at <= ended);
        around.map(|(_, delay)| *delay).max().unwrap_or_default() * 2
    }

    /// Whether the database's clock was stepped within `memory` before a request, or during it.
    pub(super) fn database_stepped(&self, observation: &Observation, memory: Duration) -> bool {
        let around = |at: Instant| at + memory >= observation.begun && at <= observation.ended;
        self.database_steps.iter().any(|(at, _)| around(*at))
    }

    /// The states that a response may have shown.
    pub(super) fn possible_states(&self, observation: &Observation) -> Vec<usize> {
        let states = &self.subjects[observation.subject];
        let begun = states.partition_point(|state| state.began <= observation.ended);
        let shown = |number: &usize| states[*number].version == observation.version;
        (0..begun).filter(shown).collect()
    }

    /// Whether a state had ended at least `bound` before a request began.
    pub(super) fn ended_before(
        &self,
        observation: &Observation,
        state: usize,
        bound: Duration,
    ) -> bool {
        let bound = bound + self.max_delay(observation.begun, observation.ended);
        let next = self.subjects[observation.subject].get(state + 1);
        next.is_some_and(|next| next.done + bound < observation.begun)
    }
}
