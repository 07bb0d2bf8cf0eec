//! The scenario with the client of progenitor.

use std::collections::HashSet;
use std::time::Duration;

use reqwest::Method;
use reqwest::header::{HeaderMap, HeaderValue};

progenitor::generate_api!(spec = "../../../target/sdk/openapi.json", interface = Builder);

use types::ErrorCode;

type Failure = progenitor_client::Error<types::ErrorBody>;

const LARGEST: i64 = (1 << 53) - 1;

fn env(name: &str) -> String {
    std::env::var(name).expect(name)
}

fn make(base: &str, key: &str) -> Client {
    let mut headers = HeaderMap::new();
    headers.insert("X-API-Key", HeaderValue::from_str(key).expect("a key"));
    let client = reqwest::Client::builder().default_headers(headers).build().expect("a client");
    Client::new_with_client(base, client)
}

tokio::task_local! {
    /// Modifies outgoing requests in ways that the client's types cannot express.
    static BEND: fn(&mut reqwest::Request);
}

impl ClientHooks for Client {
    async fn exec(
        &self,
        mut request: reqwest::Request,
        _: &OperationInfo,
    ) -> reqwest::Result<reqwest::Response> {
        // Outside of `BEND.scope`, nothing is modified.
        let _ = BEND.try_with(|bend| bend(&mut request));
        self.client().execute(request).await
    }
}

/// A typed error response; its headers.
fn refused<T: std::fmt::Debug>(got: Result<T, Failure>, status: u16, code: ErrorCode) -> HeaderMap {
    match got {
        Err(Failure::ErrorResponse(answer)) => {
            assert_eq!((answer.status().as_u16(), answer.code), (status, code));
            assert!(!answer.error.is_empty());
            answer.headers().clone()
        }
        other => panic!("not {code:?}: {other:?}"),
    }
}

async fn responses(client: &Client) {
    let page = client
        .search_genes()
        .domain("search")
        .fidelity(types::Fidelity::Native)
        .sort(types::GeneOrder::Downloads)
        .limit(std::num::NonZeroU32::new(2).expect("not 0"))
        .offset(1)
        .send()
        .await
        .expect("a page");
    assert_eq!((page.data.len(), i64::from(page.offset)), (2, 1));
    assert!(page.data.iter().all(|gene| gene.fidelity == types::Fidelity::Native));
    let mut ids = HashSet::new();
    loop {
        let offset = i32::try_from(ids.len()).expect("few");
        let limit = std::num::NonZeroU32::new(50).expect("not 0");
        let page = client.search_genes().limit(limit).offset(offset).send().await.expect("a page");
        ids.extend(page.data.iter().map(|gene| gene.id));
        if page.data.is_empty() || ids.len() as i64 >= page.total {
            assert_eq!(ids.len() as i64, page.total);
            break;
        }
    }
    let gene = &page.data[0];
    let phenotype = client.get_gene_phenotype().id(gene.id).send().await.expect("a phenotype");
    assert_eq!(phenotype.name, gene.name);
    let health = client.get_arena_insights().domain("search").send().await.expect("insights");
    assert!(health.top_genes.len() <= 5);
    let first = client.search_genes().send().await.expect("a page");
    let tag = first.headers()["etag"].to_str().expect("text").to_owned();
    match client.search_genes().if_none_match(tag).send().await {
        Err(Failure::UnexpectedResponse(answer)) => assert_eq!(answer.status().as_u16(), 304),
        other => panic!("not 304: {other:?}"),
    }
}

async fn existing_registry(client: &Client) {
    let page = client.search_genes().domain("foreign.empty").send().await.expect("a page");
    let empty = &page.data[0];
    assert_eq!((empty.id, empty.name.as_str(), empty.downloads), (uuid::Uuid::nil(), "", 0));
    assert_eq!((empty.owner.as_str(), empty.arena_history.len()), ("", 0));
    let bare = client.get_gene_phenotype().id(empty.id).send().await.expect("a phenotype");
    assert_eq!(bare.compatibility.min_playground_version, "0.0.0");
    let page = client.search_genes().domain("foreign.large").send().await.expect("a page");
    let large = &page.data[0];
    assert_eq!(large.name, "\u{1F9EC} \"\\\" \u{2028} %");
    assert_eq!(large.description, "\u{1D4B3}".repeat(20000));
    assert_eq!((large.downloads, large.arena_rank), (LARGEST, LARGEST));
    assert_eq!((large.fitness_score, large.reputation_score), (1.5, -0.25));
    let entry = &large.arena_history[0];
    assert_eq!((entry.evaluated_at.timestamp(), entry.total_calls), (1_767_206_700, LARGEST));
}

async fn errors(client: &Client) {
    // The types prevent wrong ids and limits from being sent; a domain of one space is no valid
    // domain.
    let too_many = client.search_genes().limit(std::num::NonZeroU32::new(51).expect("not 0"));
    refused(too_many.send().await, 400, ErrorCode::MissingParam);
    let no_gene = client.get_gene_phenotype().id(uuid::Uuid::from_u128(1));
    refused(no_gene.send().await, 404, ErrorCode::NotFound);
    let no_domain = client.get_arena_insights().domain("no.such.domain");
    refused(no_domain.send().await, 404, ErrorCode::NotFound);
    let stranger = make(&env("BASE_URL"), "wrong");
    refused(stranger.search_genes().send().await, 401, ErrorCode::Unauthorized);
    let get = || client.get_gene_phenotype().id(uuid::Uuid::nil()).send();
    let by_post: fn(&mut reqwest::Request) = |request| *request.method_mut() = Method::POST;
    refused(BEND.scope(by_post, get()).await, 405, ErrorCode::MethodNotAllowed);
    let no_uuid: fn(&mut reqwest::Request) = |request| {
        let path = request.url().path().replace(&uuid::Uuid::nil().to_string(), "no-uuid");
        request.url_mut().set_path(&path);
    };
    refused(BEND.scope(no_uuid, get()).await, 400, ErrorCode::InvalidId);
    // A working service never sends these responses: an error, and one with fields of a later version.
    let other = make(&env("FAULT_URL"), "any");
    refused(other.search_genes().send().await, 500, ErrorCode::Internal);
    let later = uuid::uuid!("db8dde37-1518-4afb-94b1-f5723d34ff6e");
    let phenotype = other.get_gene_phenotype().id(later).send().await.expect("a phenotype");
    assert_eq!(phenotype.id, later);
}

/// The responses of a service without its database, and of one that cannot count.
async fn outage(client: &Client) {
    let page = client.search_genes().domain("outage");
    refused(page.send().await, 502, ErrorCode::DbError);
    let gene = client.get_gene_phenotype().id(uuid::Uuid::from_u128(2));
    refused(gene.send().await, 502, ErrorCode::DbError);
    let health = client.get_arena_insights().domain("outage");
    refused(health.send().await, 502, ErrorCode::DbError);
    let refusing = make(&env("REFUSING_URL"), &env("API_KEY"));
    let busy = refused(refusing.search_genes().send().await, 503, ErrorCode::Unavailable);
    retry_after(&busy);
}

fn retry_after(headers: &HeaderMap) -> u64 {
    let wait = headers["retry-after"].to_str().expect("text").parse().expect("a number");
    assert!((1..=60).contains(&wait));
    wait
}

async fn limits(client: &Client) {
    for _ in 0..3 {
        let got = client.search_genes().send().await;
        if got.is_ok() {
            continue;
        }
        let headers = refused(got, 429, ErrorCode::RateLimited);
        tokio::time::sleep(Duration::from_secs(retry_after(&headers))).await;
        client.search_genes().send().await.expect("served after the wait");
        return;
    }
    panic!("never refused");
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    rustls::crypto::ring::default_provider().install_default().expect("the first one");
    let client = make(&env("BASE_URL"), &env("API_KEY"));
    match std::env::args().nth(1).as_deref() {
        Some("brief") => responses(&client).await,
        Some("outage") => outage(&client).await,
        _ => {
            let limited = make(&env("BASE_URL"), &env("SMALL_KEY"));
            let rest = async {
                responses(&client).await;
                existing_registry(&client).await;
                errors(&client).await;
            };
            futures::join!(limits(&limited), rest);
        }
    }
    println!("progenitor: passed");
}
