//! The front page: what the service offers, and its current state. It is rendered here, so that it
//! needs no script; `front.js` only adds conveniences.

use std::sync::Arc;

use bytes::Bytes;
use poem::http::uri::Scheme;
use poem::http::{HeaderMap, header};
use poem::{Endpoint, Request, Response, Result};

use super::content::Pages;
use super::numbers::SharedNumbers;
use super::sections::{self, ExampleGene, escaped};
use crate::config::PagesConfig;
use crate::http::headers::NO_STORE;
use crate::http::static_file::{HTML, add_page_policy};
use crate::http::template::{Parts, Template};
use crate::http::trusted_proxies::is_host;
use crate::ops::{CheckDependencies, Dependencies, Dependency, Health};

const PAGE: &str = include_str!("front/index.html");

/// Renders the front page for each request.
pub(super) struct FrontPage {
    template: Template,
    public_url: Option<String>,
    health: Arc<Health>,
    dependencies: CheckDependencies,
    config: PagesConfig,
    control_url: Option<String>,
    numbers: SharedNumbers,
}

impl FrontPage {
    pub(super) fn new(pages: &Pages) -> Self {
        let without_slash = |url: &String| url.trim_end_matches('/').to_owned();
        Self {
            template: Template::new(PAGE),
            public_url: pages.public_url.as_ref().map(without_slash),
            health: Arc::clone(&pages.health),
            dependencies: Arc::clone(&pages.dependencies),
            config: pages.config.clone(),
            control_url: pages.control_url.as_ref().map(without_slash),
            numbers: pages.numbers.clone(),
        }
    }

    fn render(&self, request: &HeaderMap, scheme: &Scheme, authority: Option<&str>) -> Parts {
        let dependencies = (self.dependencies)();
        let state = service_state(self.health.status(), &dependencies);
        let (source, address) = match &self.public_url {
            Some(url) => ("configured", url.clone()),
            None => ("guessed", guessed_address(request, scheme, authority)),
        };
        let shared = match (dependencies.redis_read, dependencies.redis_write) {
            (Dependency::None, _) => Dependency::None,
            (Dependency::Up, Dependency::Up) => Dependency::Up,
            _ => Dependency::Down,
        };
        let registry = match dependencies.views {
            Dependency::Down => Dependency::Down,
            _ => dependencies.upstream,
        };
        let base = Bytes::from(escaped(&format!("{address}/v1")));
        let numbers = self.numbers.get();
        let (section, example) = match numbers.as_deref() {
            Some(numbers) => (numbers.section.clone(), numbers.example.clone()),
            None => (Bytes::new(), ExampleGene::default()),
        };
        self.template.filled(|name| match name {
            "tone" => text(state.tone),
            "state" => text(state.name),
            "explanation" => text(state.explanation),
            "upstream" => text(dependency_text(registry)),
            "redis" => text(dependency_text(shared)),
            "change_log" => text(dependency_text(dependencies.change_log)),
            "numbers" => section.clone(),
            "key" => sections::key(&self.config, self.control_url.as_deref()),
            "domain" => example.domain.clone(),
            "gene" => example.gene.clone(),
            "gene_note" => text(example.note),
            "address_source" => text(source),
            "version" => text(env!("CARGO_PKG_VERSION")),
            "base" => base.clone(),
            _ => Bytes::new(),
        })
    }
}

const fn text(text: &'static str) -> Bytes {
    Bytes::from_static(text.as_bytes())
}

impl Endpoint for FrontPage {
    type Output = Response;

    async fn call(&self, request: Request) -> Result<Response> {
        let authority = request.original_uri().authority().map(|authority| authority.as_str());
        let page = self.render(request.headers(), request.scheme(), authority);
        let mut response = Response::builder().content_type(HTML).body(page.into_body());
        let headers = response.headers_mut();
        headers.insert(header::CACHE_CONTROL, NO_STORE);
        add_page_policy(headers);
        Ok(response)
    }
}

/// A description of the service's state.
struct ServiceState {
    /// The class of its colour: `good`, `warn` or `bad`.
    tone: &'static str,
    name: &'static str,
    explanation: &'static str,
}

fn service_state(status: &str, dependencies: &Dependencies) -> ServiceState {
    let &Dependencies { upstream, views, change_log, redis_read, redis_write, .. } = dependencies;
    match status {
        "starting" if views == Dependency::Down => ServiceState {
            tone: "bad",
            name: "Not able to start",
            explanation: "The registry cannot be read. The log of the service has the reason.",
        },
        "starting" => ServiceState {
            tone: "warn",
            name: "Starting",
            explanation: "The service has not connected to the registry's database yet. This takes \
                          a few seconds at most.",
        },
        "draining" => ServiceState {
            tone: "warn",
            name: "Shutting down",
            explanation: "This replica is about to stop. Send the request again: another replica \
                          serves it.",
        },
        _ if upstream == Dependency::Down || views == Dependency::Down => ServiceState {
            tone: "bad",
            name: "Serving cached answers only",
            explanation: "The registry cannot be read at present. Recently read data is still \
                          served; other requests get 502 DB_ERROR.",
        },
        _ if change_log == Dependency::Down => ServiceState {
            tone: "warn",
            name: "Changes show late",
            explanation: "The change log of the registry cannot be read. Responses are still served, \
                          but may not show the latest changes.",
        },
        _ if redis_read == Dependency::Down || redis_write == Dependency::Down => ServiceState {
            tone: "warn",
            name: "Running without the shared cache",
            explanation: "The cache that the replicas share is unavailable. Responses are still \
                          correct; each replica caches and counts requests on its own.",
        },
        _ => ServiceState {
            tone: "good",
            name: "All systems operational",
            explanation: "The service is running and can read the registry.",
        },
    }
}

const fn dependency_text(dependency: Dependency) -> &'static str {
    match dependency {
        Dependency::Up => "connected",
        Dependency::Down => "unavailable",
        Dependency::None => "not used",
    }
}

/// The address of the page according to the request. Behind a proxy it may be wrong, so a script in
/// the page replaces it by the address that the browser knows.
fn guessed_address(request: &HeaderMap, scheme: &Scheme, authority: Option<&str>) -> String {
    let text = |name: &str| request.get(name).and_then(|value| value.to_str().ok());
    let secure = *scheme == Scheme::HTTPS || text("x-forwarded-proto") == Some("https");
    let scheme = if secure { "https" } else { "http" };
    let host = authority.or_else(|| text("host")).filter(|host| is_host(host));
    format!("{scheme}://{}", host.unwrap_or("localhost"))
}

#[cfg(test)]
mod tests {
    use poem::http::HeaderValue;

    use super::*;
    use crate::api::document::Document;
    use crate::http::trusted_proxies::TrustedProxies;

    /// A page of a replica that is ready.
    fn front(public_url: Option<&str>, dependencies: Dependencies) -> FrontPage {
        let page = starting(public_url, dependencies);
        page.health.set_ready();
        page
    }

    fn starting(public_url: Option<&str>, dependencies: Dependencies) -> FrontPage {
        FrontPage::new(&Pages {
            document: Document::default(),
            public_url: public_url.map(str::to_owned),
            documents_own_address: false,
            trusted_proxies: TrustedProxies::default(),
            health: Arc::default(),
            dependencies: Arc::new(move || dependencies.clone()),
            config: PagesConfig::default(),
            control_url: None,
            numbers: SharedNumbers::default(),
        })
    }

    fn dependencies(upstream: Dependency, redis: Dependency) -> Dependencies {
        Dependencies {
            upstream,
            views: Dependency::Up,
            change_log: Dependency::Up,
            primary: None,
            standbys: Vec::new(),
            redis_read: redis,
            redis_write: redis,
        }
    }

    #[test]
    fn the_page_shows_the_state_of_the_service() {
        use Dependency::{Down, None as Absent, Up};
        for (upstream, redis, state) in [
            (Up, Up, "All systems operational"),
            (Up, Absent, "All systems operational"),
            (Up, Down, "Running without the shared cache"),
            (Down, Up, "Serving cached answers only"),
            (Down, Down, "Serving cached answers only"),
        ] {
            let page = front(None, dependencies(upstream, redis)).render(
                &HeaderMap::new(),
                &Scheme::HTTP,
                None,
            );
            let page = page.to_text();
            assert!(page.contains(state), "{upstream:?} {redis:?}: {page}");
            assert!(!page.contains("{{"), "every placeholder is replaced: {page}");
        }
        let unreadable = Dependencies { views: Down, ..dependencies(Up, Up) };
        let page = front(None, unreadable.clone()).render(&HeaderMap::new(), &Scheme::HTTP, None);
        let page = page.to_text();
        assert!(page.contains("Serving cached answers only") && page.contains("unavailable"));
        let without_log = Dependencies { change_log: Down, ..dependencies(Up, Up) };
        let page = front(None, without_log).render(&HeaderMap::new(), &Scheme::HTTP, None);
        assert!(page.to_text().contains("Changes show late"));
        let never_ready = starting(None, unreadable);
        let page = never_ready.render(&HeaderMap::new(), &Scheme::HTTP, None).to_text();
        assert!(page.contains("Not able to start"), "{page}");
        let all_up = dependencies(Up, Up);
        let draining = front(None, all_up.clone());
        draining.health.set_draining();
        let page =
            |front: &FrontPage| front.render(&HeaderMap::new(), &Scheme::HTTP, None).to_text();
        assert!(page(&draining).contains("Shutting down"));
        assert!(page(&starting(None, all_up)).contains("Starting"));
    }

    #[test]
    fn addresses_come_from_the_configuration_or_the_request_and_are_escaped() {
        let healthy = dependencies(Dependency::Up, Dependency::None);
        let configured = front(Some("https://api.example/genes/"), healthy);
        let page = configured.render(&HeaderMap::new(), &Scheme::HTTP, Some("other.example"));
        let page = page.to_text();
        assert!(page.contains("https://api.example/genes/v1</span>/genes?"), "{page}");
        let address = |host: &'static str, proto: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert("host", HeaderValue::from_static(host));
            headers.insert("x-forwarded-proto", HeaderValue::from_static(proto));
            guessed_address(&headers, &Scheme::HTTP, None)
        };
        assert_eq!(address("api.example:8443", "https"), "https://api.example:8443");
        assert_eq!(address("[::1]:80", "gopher"), "http://[::1]:80");
        assert_eq!(address("<b>", "https"), "https://localhost");
        let long = "a".repeat(256);
        let guessed =
            |scheme: &Scheme, host| guessed_address(&HeaderMap::new(), scheme, Some(host));
        assert_eq!(guessed(&Scheme::HTTP, &long), "http://localhost");
        assert_eq!(guessed(&Scheme::HTTPS, "a.b"), "https://a.b");
        assert_eq!(escaped("<&\"'>"), "&lt;&amp;&quot;&#39;&gt;");
    }
}
