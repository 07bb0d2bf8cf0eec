//! Reading all pages of a search over HTTP.

use std::collections::HashSet;

use gene_registry::registry::{CatalogueEvaluation, CatalogueGene};
use serde_json::Value;
use uuid::Uuid;

use crate::support::postgres::PostgresServer;
use crate::support::redis::RedisServer;
use crate::support::replica::{READER, Replica, Response, config, load, long_timeouts, migrated};

const GENES: u128 = 2000;

/// Genes with three distinct values of each sort field, and with ids in no sort order.
fn genes() -> Vec<CatalogueGene> {
    let gene = |n: u128| {
        let third = |shift: u128| (n + n / 7 + shift) % 3;
        let evaluation = CatalogueEvaluation {
            age_minutes: 60,
            fitness_value: [0.25, 0.5, 1.5][third(0) as usize],
            total_calls: 1,
        };
        CatalogueGene {
            id: Uuid::from_u128(n.wrapping_mul(0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835)),
            name: format!("gene-{n}"),
            domain: if n % 5 < 3 { "common" } else { "rare" }.to_owned(),
            fidelity: ["Wrapped", "Hybrid", "Native"][(n % 11 % 3) as usize].to_owned(),
            description: String::new(),
            owner: "team-a".to_owned(),
            reputation_score: [-1.0, 0.0, 0.75][third(1) as usize],
            downloads: [0, 10, 9_007_199_254_740_991][third(2) as usize],
            published: true,
            phenotype: None,
            install_command: None,
            min_playground_version: None,
            required_fidelity: None,
            evaluations: vec![evaluation],
        }
    };
    (0..GENES).map(gene).collect()
}

struct PageSetup {
    replica: Replica,
    key: String,
}

impl PageSetup {
    async fn page(&self, query: &str) -> Response {
        let response = self.replica.get(&format!("/genes?{query}"), Some(&self.key)).await;
        assert_eq!(response.status, 200, "{query}: {response:?}");
        response
    }

    /// All pages by offset.
    async fn walk_by_offset(&self, filter: &str, limit: usize) -> Vec<Value> {
        let mut found = Vec::new();
        loop {
            let query = format!("{filter}&limit={limit}&offset={}", found.len());
            let mut body = self.page(&query).await.json();
            let Value::Array(page) = body["data"].take() else { panic!("no data: {body}") };
            let total = body["total"].as_u64().unwrap() as usize;
            assert_eq!(page.len(), limit.min(total - found.len()), "{query}");
            found.extend(page);
            if found.len() == total {
                return found;
            }
        }
    }

    /// All pages from `query` on, following the links of this relation.
    async fn walk_by_links(&self, query: String, kind: &str) -> Vec<(String, Vec<Value>)> {
        let mut pages = vec![];
        let mut next = Some(query);
        while let Some(query) = next {
            let response = self.page(&query).await;
            next = link(&response, kind);
            pages.push((query, response.json()["data"].as_array().unwrap().clone()));
        }
        pages
    }
}

/// The query of a page's link with this relation.
fn link(response: &Response, kind: &str) -> Option<String> {
    let expected = format!(">; rel=\"{kind}\"");
    let links = response.header("link").split(", ").find_map(|link| link.strip_suffix(&expected));
    links.map(|link| link.strip_prefix("<?").unwrap().to_owned())
}

fn ids<'a>(genes: impl IntoIterator<Item = &'a Value>) -> Vec<&'a str> {
    genes.into_iter().map(|gene| gene["id"].as_str().unwrap()).collect()
}

async fn setup() -> (crate::support::database::Database<'static>, PageSetup) {
    let database = migrated(PostgresServer::shared().await).await;
    load(&database.url(), genes()).await;
    let (redis, prefix) = (RedisServer::shared().await, RedisServer::new_prefix());
    let mut config = config(&database.url_as(READER), Some((&redis.url(), &prefix)));
    long_timeouts(&mut config);
    let key = database.new_key(1_000_000).await;
    let replica = Replica::start(&config).await;
    (database, PageSetup { replica, key })
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_hold_every_gene_once_and_always_in_the_same_order() {
    let (_database, setup) = setup().await;
    for (sort, field) in [
        ("fitness", "fitness_score"),
        ("reputation", "reputation_score"),
        ("downloads", "downloads"),
    ] {
        for (filter, matches) in filters() {
            let filter = format!("sort={sort}{filter}");
            let genes = setup.walk_by_offset(&filter, 50).await;

            let expected = expected(field, matches);
            assert_eq!(ids(&genes), expected, "{filter}");
            assert_eq!(ids(&genes).iter().collect::<HashSet<_>>().len(), genes.len());

            // Pages of another size, which no cache has, forwards and backwards by the links.
            let pages = setup.walk_by_links(format!("{filter}&limit=47"), "next").await;
            let by_links = pages.iter().flat_map(|(_, page)| page);
            assert_eq!(by_links.collect::<Vec<_>>(), genes.iter().collect::<Vec<_>>(), "{filter}");
            assert_eq!(pages.len(), genes.len().div_ceil(47).max(1), "no empty page at the end");

            let last = pages.last().unwrap().0.clone();
            let mut back = setup.walk_by_links(last, "prev").await;
            back.reverse();
            let back = back.iter().flat_map(|(_, page)| page).collect::<Vec<_>>();
            assert_eq!(back, genes.iter().collect::<Vec<_>>(), "{filter}");
        }
    }
}

type Matches = fn(&CatalogueGene) -> bool;

fn filters() -> [(&'static str, Matches); 5] {
    [
        ("", |_| true),
        ("&domain=common", |gene| gene.domain == "common"),
        ("&fidelity=Hybrid", |gene| gene.fidelity == "Hybrid"),
        ("&domain=rare&fidelity=Native", |gene| gene.domain == "rare" && gene.fidelity == "Native"),
        ("&domain=none", |_| false),
    ]
}

/// The ids in the documented order, computed without a database.
fn expected(field: &str, matches: Matches) -> Vec<String> {
    let value = |gene: &CatalogueGene| match field {
        "fitness_score" => gene.fitness_score(),
        "reputation_score" => gene.reputation_score,
        _ => gene.downloads as f64,
    };
    let mut genes: Vec<_> = genes().into_iter().filter(matches).collect();
    genes.sort_by(|a, b| value(b).total_cmp(&value(a)).then(a.id.cmp(&b.id)));
    genes.into_iter().map(|gene| gene.id.to_string()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_past_the_end_is_empty_with_the_correct_total() {
    let (_database, setup) = setup().await;
    for offset in [2000, 2001, 1_000_000, 2_147_483_647_u64] {
        let response = setup.page(&format!("offset={offset}&limit=7")).await;
        let body = response.json();
        assert_eq!(body["data"], serde_json::json!([]));
        assert_eq!(
            (&body["total"], &body["limit"], &body["offset"]),
            (&2000.into(), &7.into(), &offset.into())
        );
        assert_eq!(link(&response, "next"), None);
    }
    let response = setup.page("offset=1993&limit=7").await;
    assert_eq!(response.json()["data"].as_array().unwrap().len(), 7);
    assert_eq!(link(&response, "next"), None, "no empty page follows a full last page");
    assert!(link(&setup.page("offset=1992&limit=7").await, "next").is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn links_keep_every_filter_and_consist_of_a_query_only() {
    let (_database, setup) = setup().await;
    let response = setup.page("domain=common&fidelity=Hybrid&sort=downloads&limit=10&x=1").await;
    let next = link(&response, "next").unwrap();
    assert_eq!(link(&response, "prev"), None, "{}", response.header("link"));
    for part in ["domain=common", "fidelity=Hybrid", "sort=downloads", "limit=10", "offset=10"] {
        assert!(next.split('&').any(|given| given == part), "{next}");
    }
    assert!(!next.contains("x=1"), "{next}");
    let second = setup.page(&next).await;
    assert_eq!(second.json()["offset"], 10);
    assert!(link(&second, "prev").is_some());
}
