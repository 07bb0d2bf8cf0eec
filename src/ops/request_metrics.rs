//! Requests by route, method and status. The handles are made on first use and found by number:
//! a request costs no allocation and no map.

use std::sync::OnceLock;
use std::time::Duration;

use metrics::{Counter, Histogram, Key, Label, Recorder};
use poem::http::Method;

use super::metrics::METADATA;

const REQUESTS: &str = "gene_registry_requests_total";
pub(super) const REQUEST_SECONDS: &str = "gene_registry_request_seconds";
const ANSWERS: &str = "gene_registry_answers_total";

/// What a route is called that does not exist.
const UNKNOWN: &str = "unknown";

const METHODS: [&str; 8] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "other"];

/// The last stands for all others.
const STATUSES: [&str; 13] =
    ["200", "304", "400", "401", "404", "405", "429", "500", "502", "503", "403", "204", "other"];

const SOURCES: [&str; 6] =
    ["local", "shared", "miss", "collapsed", "stale-if-error", "stale-if-busy"];

/// The word for a method: fixed ones only.
pub fn method_word(method: &Method) -> &'static str {
    METHODS[method_place(method)]
}

/// What a request is counted under.
#[derive(Debug, Clone, Copy)]
pub struct RequestLabels<'a> {
    /// The route's template.
    pub route: Option<&'a str>,
    /// The method.
    pub method: &'a Method,
    /// The status.
    pub status: u16,
    /// Where an answer was found.
    pub source: Option<&'static str>,
}

/// Counts the requests of one listener.
pub struct RequestMetrics {
    routes: Vec<String>,
    handles: Vec<OnceLock<Handles>>,
    answers: [Counter; SOURCES.len()],
}

struct Handles {
    count: Counter,
    seconds: Histogram,
}

impl RequestMetrics {
    /// `routes`: every template that a request can have, the busiest first.
    pub(super) fn new(recorder: &impl Recorder, mut routes: Vec<String>) -> Self {
        routes.push(UNKNOWN.to_owned());
        let slots = routes.len() * METHODS.len() * STATUSES.len();
        let answers = SOURCES.map(|source| {
            let key = Key::from_parts(ANSWERS, vec![Label::new("source", source)]);
            recorder.register_counter(&key, &METADATA)
        });
        Self { routes, handles: (0..slots).map(|_| OnceLock::new()).collect(), answers }
    }

    /// Counts a request that took `took`.
    pub(super) fn record(
        &self,
        recorder: &impl Recorder,
        labels: RequestLabels<'_>,
        took: Duration,
    ) {
        let route = self.route_place(labels.route);
        let (method, status) = (method_place(labels.method), status_place(labels.status));
        let place = (route * METHODS.len() + method) * STATUSES.len() + status;
        let handles = self.handles[place].get_or_init(|| {
            Handles::new(recorder, &self.routes[route], METHODS[method], STATUSES[status])
        });
        handles.count.increment(1);
        handles.seconds.record(took);
        if let Some(source) = labels.source
            && let Some(place) = SOURCES.iter().position(|word| *word == source)
        {
            self.answers[place].increment(1);
        }
    }

    fn route_place(&self, route: Option<&str>) -> usize {
        let unknown = self.routes.len() - 1;
        let known = route.and_then(|route| self.routes.iter().position(|known| known == route));
        known.unwrap_or(unknown)
    }
}

impl Handles {
    fn new(
        recorder: &impl Recorder,
        route: &str,
        method: &'static str,
        status: &'static str,
    ) -> Self {
        let labels = vec![
            Label::new("route", route.to_owned()),
            Label::new("method", method),
            Label::new("status", status),
        ];
        Self {
            count: recorder.register_counter(&Key::from_parts(REQUESTS, labels.clone()), &METADATA),
            seconds: recorder
                .register_histogram(&Key::from_parts(REQUEST_SECONDS, labels), &METADATA),
        }
    }
}

fn method_place(method: &Method) -> usize {
    match *method {
        Method::GET => 0,
        Method::HEAD => 1,
        Method::POST => 2,
        Method::PUT => 3,
        Method::PATCH => 4,
        Method::DELETE => 5,
        Method::OPTIONS => 6,
        _ => METHODS.len() - 1,
    }
}

fn status_place(status: u16) -> usize {
    match status {
        200 => 0,
        304 => 1,
        400 => 2,
        401 => 3,
        404 => 4,
        405 => 5,
        429 => 6,
        500 => 7,
        502 => 8,
        503 => 9,
        403 => 10,
        204 => 11,
        _ => STATUSES.len() - 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_stands_at_its_own_place() {
        for (place, status) in STATUSES.iter().enumerate() {
            assert_eq!(status_place(status.parse().unwrap_or(418)), place);
        }
        for (place, word) in METHODS.iter().enumerate() {
            assert_eq!(
                method_place(&Method::from_bytes(word.as_bytes()).expect("a method")),
                place
            );
        }
    }
}
