//! One run of the checker: what its parts share, and what they record.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;
use std::time::Duration;

use gene_registry::keys::ApiKey;
use tokio::time::Instant;

use super::history::{History, Observation, UNCONFIRMED_WITHIN, VISIBLE_WITHIN};
use super::rules::Rules;
use super::subjects::{KEYS, Request, SUBJECTS, Target, create_genes, shown};
use super::world::{Ages, RunningReplica, SLOTS, World};
use crate::support::replica::{Response, new_key_in};

/// So many violations of each rule are described.
const DESCRIBED: usize = 3;

/// So long after a promotion, a replica that was cut off may read before its next poll: the longest
/// cut, and the interval between polls.
const LEARNED_WITHIN: Duration = Duration::from_secs(5);

pub(super) struct CheckerRun {
    pub(super) world: World,
    /// An API key that is always valid.
    pub(super) key: String,
    /// The API keys that are revoked and made valid again.
    pub(super) changing_keys: Vec<String>,
    pub(super) history: RefCell<History>,
    observations: RefCell<Vec<Observation>>,
    /// Violations that responses show by themselves, by rule.
    unexpected: RefCell<Vec<(&'static str, String)>>,
    /// When the database was read for the last 200 of each replica to a request, at the earliest.
    answered: RefCell<HashMap<(usize, Rc<str>), Instant>>,
    /// What the faults did and when.
    events: RefCell<Vec<(Instant, String)>>,
    /// The faults are over, and all replicas have recovered.
    pub(super) is_over: Cell<bool>,
}

impl CheckerRun {
    pub(super) async fn start(ages: Ages) -> Self {
        let world = World::start(ages).await;
        create_genes(&world.connect().await.unwrap()).await;
        let url = world.url().unwrap();
        let mut keys = Vec::new();
        for _ in 0..=KEYS {
            keys.push(new_key_in(&url, |key| key.spec.rate_limit_per_minute = 100_000_000).await);
        }
        Self {
            world,
            key: keys.pop().unwrap(),
            changing_keys: keys,
            history: RefCell::new(History::new(Instant::now(), SUBJECTS, SLOTS)),
            observations: RefCell::default(),
            unexpected: RefCell::default(),
            answered: RefCell::default(),
            events: RefCell::default(),
            is_over: Cell::new(false),
        }
    }

    /// The stored prefixes of the keys that change.
    pub(super) fn prefixes(&self) -> Vec<String> {
        let prefix = |key: &String| key.parse::<ApiKey>().unwrap().prefix().to_owned();
        self.changing_keys.iter().map(prefix).collect()
    }

    pub(super) fn log_event(&self, event: String) {
        self.events.borrow_mut().push((Instant::now(), event));
    }

    pub(super) fn log_unexpected(&self, rule: &'static str, what: String) {
        let second = self.history.borrow().seconds(Instant::now());
        self.unexpected.borrow_mut().push((rule, format!("{rule}: at {second:.3} s, {what}")));
    }

    pub(super) fn record_response(
        &self,
        replica: &RunningReplica,
        request: &Request,
        response: &Response,
        begun: Instant,
    ) {
        let ended = Instant::now();
        let name = &request.name;
        let answered = (replica.number, Rc::clone(name));
        if let Some(rule) = self.broken_by_status(replica, request, response, (begun, ended)) {
            let number = replica.number;
            self.log_unexpected(rule, format!("replica {number}, {name}: {response:?}"));
        }
        let age = response.headers.get("age").and_then(|age| age.to_str().ok()?.parse().ok());
        let read_at = |age: u64| begun.checked_sub(Duration::from_secs(age + 1));
        if response.status == 200
            && let Some(read_at) = age.and_then(read_at)
        {
            self.answered.borrow_mut().insert(answered, read_at);
        }
        let source: Rc<str> = response.header("cache-status").into();
        let observation = |(subject, version)| Observation {
            replica: replica.number,
            slot: replica.slot,
            request: Rc::clone(name),
            subject,
            version,
            begun,
            ended,
            // The age of a response says nothing about the key that it was requested with.
            age: if matches!(request.target, Target::Key(_)) { None } else { age },
            source: Rc::clone(&source),
        };
        let shown = shown(request, response).unwrap_or_default();
        self.observations.borrow_mut().extend(shown.into_iter().map(observation));
    }

    /// The rule that the status of a response violates, if any.
    fn broken_by_status(
        &self,
        replica: &RunningReplica,
        request: &Request,
        response: &Response,
        (begun, ended): (Instant, Instant),
    ) -> Option<&'static str> {
        let status = response.status.as_u16();
        if shown(request, response).is_some() {
            return None;
        }
        if !matches!(status, 502 | 503) {
            return Some(match status {
                401 => "a valid key was refused",
                _ => "a response that is not one of the registry",
            });
        }
        let history = self.history.borrow();
        let times = (begun, ended);
        let is_blocked = history.is_blocked(replica.slot, times, VISIBLE_WITHIN);
        let known = (replica.number, Rc::clone(&request.name));
        if request.target == Target::Steady
            && let Some(read_at) = self.answered.borrow().get(&known).copied()
            && read_at + self.world.ages.min_lifetime(&request.name) > ended
        {
            // A promotion or an overflow of the log makes every earlier entry outdated.
            let from = read_at - LEARNED_WITHIN;
            let is_outdated = history.primary_down.overlaps(from, ended)
                || history.log_overflowed.overlaps(from, ended);
            if !(is_outdated && is_blocked) {
                return Some("an error instead of a cached response");
            }
        }
        // After a long fault, what cannot be confirmed may be read by several requests at once.
        let is_recovering = history.is_blocked(replica.slot, times, UNCONFIRMED_WITHIN);
        (!is_blocked && !is_recovering).then_some("an error although the database was reachable")
    }

    /// Judges the run. The error describes its violations; both describe its faults.
    pub(super) fn judge(&self) -> Result<String, String> {
        let (history, observations) = (self.history.borrow(), self.observations.borrow());
        let mut found: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for (rule, text) in self.unexpected.borrow().iter() {
            found.entry(rule).or_default().push(text.clone());
        }
        let max_age = |request: &str| self.world.ages.max_age(request);
        for violation in Rules::new(&history, &max_age).violations(&observations) {
            found.entry(violation.rule).or_default().push(violation.to_string());
        }
        let is_bounded = |observation: &&Observation| {
            let request = (observation.begun, observation.ended);
            history.visible_within(observation.slot, request).is_some()
        };
        let bounded = observations.iter().filter(is_bounded).count();
        let states: usize = history.subjects.iter().map(Vec::len).sum();
        let summary =
            format!("{states} states, {} observations, {bounded} bounded", observations.len());
        let mut lines = vec![summary];
        for (rule, all) in &found {
            lines.push(format!("{} times: {rule}", all.len()));
            lines.extend(all.iter().take(DESCRIBED).map(|text| format!("  {text}")));
        }
        lines.push("faults:".to_owned());
        let event =
            |(at, event): &(Instant, String)| format!("  {:8.3} s: {event}", history.seconds(*at));
        lines.extend(self.events.borrow().iter().map(event));
        let (is_clean, report) = (found.is_empty(), lines.join("\n"));
        assert!(!is_clean || (states > 2 * SUBJECTS && bounded > 100), "too little: {report}");
        if is_clean { Ok(report) } else { Err(report) }
    }
}
