//! The front page: what this is, and whether it is well, at the moment it is asked for. It is
//! finished here, so that it says so without any script; `front.js` adds comfort.

use std::sync::Arc;

use poem::http::uri::Scheme;
use poem::http::{HeaderMap, HeaderValue, header};
use poem::{Endpoint, Request, Response, Result};

use crate::ops::{CheckDependencies, Dependencies, Dependency, Health};

const PAGE: &str = include_str!("front/index.html");

pub(super) struct Front {
    public_url: Option<String>,
    health: Arc<Health>,
    dependencies: CheckDependencies,
}

impl Front {
    pub(super) fn new(
        public_url: Option<&str>,
        health: Arc<Health>,
        dependencies: CheckDependencies,
    ) -> Self {
        let public_url = public_url.map(|url| url.trim_end_matches('/').to_owned());
        Self { public_url, health, dependencies }
    }

    fn page(&self, request: &HeaderMap, scheme: &Scheme, authority: Option<&str>) -> String {
        let dependencies = (self.dependencies)();
        let said = said(self.health.status(), &dependencies);
        let (known, address) = match &self.public_url {
            Some(url) => ("configured", url.clone()),
            None => ("guessed", guessed(request, scheme, authority)),
        };
        let shared = match (dependencies.redis_read, dependencies.redis_write) {
            (Dependency::None, _) => Dependency::None,
            (Dependency::Up, Dependency::Up) => Dependency::Up,
            _ => Dependency::Down,
        };
        PAGE.replace("{{tone}}", said.tone)
            .replace("{{state}}", said.state)
            .replace("{{explanation}}", said.explanation)
            .replace("{{upstream}}", word(dependencies.upstream))
            .replace("{{redis}}", word(shared))
            .replace("{{known}}", known)
            .replace("{{version}}", env!("CARGO_PKG_VERSION"))
            .replace("{{base}}", &escaped(&format!("{address}/v1")))
    }
}

impl Endpoint for Front {
    type Output = Response;

    async fn call(&self, request: Request) -> Result<Response> {
        super::get_or_head(&request)?;
        let authority = request.original_uri().authority().map(|authority| authority.as_str());
        let page = self.page(request.headers(), request.scheme(), authority);
        let mut response = Response::builder().content_type(super::HTML).body(page);
        let headers = response.headers_mut();
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        super::add_policy(headers);
        Ok(response)
    }
}

struct Said {
    tone: &'static str,
    state: &'static str,
    explanation: &'static str,
}

fn said(status: &str, dependencies: &Dependencies) -> Said {
    let &Dependencies { upstream, redis_read, redis_write, .. } = dependencies;
    match status {
        "starting" => Said {
            tone: "warn",
            state: "Starting",
            explanation: "The service has not reached the registry's database yet. This takes a \
                          few seconds at most.",
        },
        "draining" => Said {
            tone: "warn",
            state: "Closing",
            explanation: "This replica is about to end. Ask again: another one will answer.",
        },
        _ if upstream == Dependency::Down => Said {
            tone: "bad",
            state: "Answering from memory",
            explanation: "The registry's database can't be reached at the moment. What has been \
                          read lately is still answered, the rest with 502 DB_ERROR.",
        },
        _ if redis_read == Dependency::Down || redis_write == Dependency::Down => Said {
            tone: "warn",
            state: "Well, on its own",
            explanation: "The cache that the replicas share is away. Answers are as right as \
                          ever; each replica remembers and counts for itself.",
        },
        _ => Said {
            tone: "good",
            state: "All is well",
            explanation: "The service answers, and reads from the registry.",
        },
    }
}

const fn word(dependency: Dependency) -> &'static str {
    match dependency {
        Dependency::Up => "reached",
        Dependency::Down => "out of reach",
        Dependency::None => "not used",
    }
}

/// The address the page was asked for under, as far as a request tells. Behind a proxy it may be
/// wrong, so a script in the page, which knows better, puts it right.
fn guessed(request: &HeaderMap, scheme: &Scheme, authority: Option<&str>) -> String {
    let text = |name: &str| request.get(name).and_then(|value| value.to_str().ok());
    let secure = *scheme == Scheme::HTTPS || text("x-forwarded-proto") == Some("https");
    let scheme = if secure { "https" } else { "http" };
    let host = authority.or_else(|| text("host")).filter(|host| is_host(host));
    format!("{scheme}://{}", host.unwrap_or("localhost"))
}

fn is_host(host: &str) -> bool {
    !host.is_empty()
        && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-:[]".contains(&byte))
}

fn escaped(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    text.replace('"', "&quot;").replace('\'', "&#39;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn front(public_url: Option<&str>, dependencies: Dependencies) -> Front {
        let health = Arc::new(Health::default());
        health.set_ready();
        Front::new(public_url, health, Arc::new(move || dependencies.clone()))
    }

    fn dependencies(upstream: Dependency, redis: Dependency) -> Dependencies {
        let (primary, standbys) = (None, Vec::new());
        Dependencies { upstream, primary, standbys, redis_read: redis, redis_write: redis }
    }

    #[test]
    fn the_page_says_how_the_service_is() {
        use Dependency::{Down, None as Absent, Up};
        for (upstream, redis, state) in [
            (Up, Up, "All is well"),
            (Up, Absent, "All is well"),
            (Up, Down, "Well, on its own"),
            (Down, Up, "Answering from memory"),
            (Down, Down, "Answering from memory"),
        ] {
            let page = front(None, dependencies(upstream, redis)).page(
                &HeaderMap::new(),
                &Scheme::HTTP,
                None,
            );
            assert!(page.contains(state), "{upstream:?} {redis:?}: {page}");
            assert!(!page.contains("{{"), "all is filled in: {page}");
        }
        let all_up = dependencies(Up, Up);
        let draining = front(None, all_up.clone());
        draining.health.set_draining();
        assert!(draining.page(&HeaderMap::new(), &Scheme::HTTP, None).contains("Closing"));
        let starting = Front::new(None, Arc::default(), Arc::new(move || all_up.clone()));
        assert!(starting.page(&HeaderMap::new(), &Scheme::HTTP, None).contains("Starting"));
    }

    #[test]
    fn addresses_come_from_the_configuration_or_the_request_and_never_bring_markup() {
        let well = dependencies(Dependency::Up, Dependency::None);
        let configured = front(Some("https://api.example/genes/"), well);
        let page = configured.page(&HeaderMap::new(), &Scheme::HTTP, Some("other.example"));
        assert!(page.contains("https://api.example/genes/v1</span>/genes?"), "{page}");
        let address = |host: &'static str, proto: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert("host", HeaderValue::from_static(host));
            headers.insert("x-forwarded-proto", HeaderValue::from_static(proto));
            guessed(&headers, &Scheme::HTTP, None)
        };
        assert_eq!(address("api.example:8443", "https"), "https://api.example:8443");
        assert_eq!(address("[::1]:80", "gopher"), "http://[::1]:80");
        assert_eq!(address("<b>", "https"), "https://localhost");
        assert_eq!(guessed(&HeaderMap::new(), &Scheme::HTTPS, Some("a.b")), "https://a.b");
        assert_eq!(escaped("<&\"'>"), "&lt;&amp;&quot;&#39;&gt;");
    }
}
