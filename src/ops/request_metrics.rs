//! Counts requests by route, method and status. The handles are created on first use and found by
//! index, so counting needs no allocation and no map.

use std::sync::OnceLock;
use std::time::Duration;

use metrics::{Counter, Histogram, Label, Recorder, counter, histogram, with_local_recorder};
use poem::http::Method;

const REQUESTS: &str = "gene_registry_requests_total";
pub(super) const REQUEST_SECONDS: &str = "gene_registry_request_seconds";
const RESPONSES_BY_SOURCE: &str = "gene_registry_answers_total";

/// The label of a route that does not exist.
pub(super) const UNMATCHED_ROUTE: &str = "unknown";

/// The methods that have a label of their own, the most frequent first; others are `other`.
const METHODS: [&str; 8] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "other"];

/// The statuses that have a label of their own, the most frequent first; others are `other`.
const STATUSES: [u16; 12] = [200, 304, 400, 401, 404, 405, 429, 500, 502, 503, 403, 204];

/// The statuses of failures, whose series exist from the start: the increase of a series that begins at 1
/// is not seen.
const FAILURES: [u16; 3] = [500, 502, 503];

/// Where a response was found, as `cache::Source` names it. Others are not counted.
const SOURCES: [&str; 7] =
    ["local", "shared", "unconfirmed", "miss", "collapsed", "stale-if-error", "stale-if-busy"];

/// The label of a method; unusual ones are `other`.
pub fn method_label(method: &Method) -> &'static str {
    METHODS[method_index(method)]
}

/// The labels of a request.
#[derive(Debug, Clone, Copy)]
pub struct RequestLabels<'a> {
    /// The route's template; `None` if the route does not exist.
    pub route: Option<&'a str>,
    /// The method.
    pub method: &'a Method,
    /// The status.
    pub status: u16,
    /// Where the response was found, if it came from the caches.
    pub source: Option<&'static str>,
}

/// The metrics of one listener's requests, a handle for each combination of labels.
pub struct RequestMetrics {
    routes: Vec<String>,
    handles: Vec<OnceLock<RequestHandles>>,
    by_source: [Counter; SOURCES.len()],
}

struct RequestHandles {
    count: Counter,
    seconds: Histogram,
}

impl RequestMetrics {
    /// `routes`: the templates of all routes, the busiest first; the first ones are the `operations`.
    pub(super) fn new(mut routes: Vec<String>, operations: usize) -> Self {
        routes.push(UNMATCHED_ROUTE.to_owned());
        let slots = routes.len() * METHODS.len() * (STATUSES.len() + 1);
        let by_source = SOURCES.map(|source| counter!(RESPONSES_BY_SOURCE, "source" => source));
        let handles = (0..slots).map(|_| OnceLock::new()).collect();
        let metrics = Self { routes, handles, by_source };
        for route in 0..metrics.routes.len() {
            for status in FAILURES {
                counter!(REQUESTS, metrics.labels(route, 0, status_index(status))).absolute(0);
            }
        }
        for route in 0..operations {
            drop(histogram!(REQUEST_SECONDS, metrics.labels(route, 0, 0)));
        }
        metrics
    }

    /// The labels of a series, by their indices.
    fn labels(&self, route: usize, method: usize, status: usize) -> Vec<Label> {
        let status = STATUSES.get(status).map_or("other".to_owned(), u16::to_string);
        vec![
            Label::new("route", self.routes[route].clone()),
            Label::new("method", METHODS[method]),
            Label::new("status", status),
        ]
    }

    /// Counts a request and its duration.
    pub(super) fn record(
        &self,
        recorder: &impl Recorder,
        labels: RequestLabels<'_>,
        took: Duration,
    ) {
        let route = self.route_index(labels.route);
        let (method, status) = (method_index(labels.method), status_index(labels.status));
        let index = (route * METHODS.len() + method) * (STATUSES.len() + 1) + status;
        let handles = self.handles[index].get_or_init(|| {
            let labels = self.labels(route, method, status);
            with_local_recorder(recorder, || RequestHandles {
                count: counter!(REQUESTS, labels.clone()),
                seconds: histogram!(REQUEST_SECONDS, labels),
            })
        });
        handles.count.increment(1);
        handles.seconds.record(took);
        if let Some(source) = labels.source
            && let Some(index) = SOURCES.iter().position(|word| *word == source)
        {
            self.by_source[index].increment(1);
        }
    }

    fn route_index(&self, route: Option<&str>) -> usize {
        let unknown = self.routes.len() - 1;
        let known = route.and_then(|route| self.routes.iter().position(|known| known == route));
        known.unwrap_or(unknown)
    }
}

#[inline]
fn method_index(method: &Method) -> usize {
    METHODS.iter().position(|known| *known == method.as_str()).unwrap_or(METHODS.len() - 1)
}

/// The index of a status in [`STATUSES`], or its length for another status.
fn status_index(status: u16) -> usize {
    STATUSES.iter().position(|known| *known == status).unwrap_or(STATUSES.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_label_has_its_own_index() {
        for (index, status) in STATUSES.into_iter().chain([418]).enumerate() {
            assert_eq!(status_index(status), index);
        }
        for (index, word) in METHODS.iter().enumerate() {
            assert_eq!(
                method_index(&Method::from_bytes(word.as_bytes()).expect("a method")),
                index
            );
        }
    }
}
