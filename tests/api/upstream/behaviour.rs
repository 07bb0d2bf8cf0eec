//! The behaviour that every upstream must have; each test runs on both.

mod install_command;

use std::collections::HashSet;

use gene_registry::registry::{
    Catalogue, CatalogueEvaluation, CatalogueGene, DomainName, Fidelity, GeneFilter, GeneId,
    GeneSearch, Page, PageLimit, PageOffset, Sort, Timestamp, Trend,
};
use gene_registry::upstream::{Embedded, Upstream};
use serde_json::json;
use uuid::Uuid;

use super::database::{TEMPLATE, TestDatabase, fresh_database};

pub(crate) const DAY: u32 = 24 * 60;

/// Both upstreams, with the same genes.
struct BothUpstreams {
    embedded: Embedded,
    postgres: gene_registry::upstream::Postgres,
    now: Timestamp,
    _database: TestDatabase,
}

impl BothUpstreams {
    async fn of(genes: Vec<CatalogueGene>) -> Self {
        let (database, now) = (fresh_database().await, now());
        database.load(genes.clone(), now).await;
        Self::with(database, genes, now)
    }

    fn with(database: TestDatabase, genes: Vec<CatalogueGene>, now: Timestamp) -> Self {
        let catalogue = Catalogue { genes };
        let embedded = Embedded::from_catalogue(&catalogue, now, vec![], TEMPLATE.to_owned());
        Self { embedded, postgres: database.upstream(), now, _database: database }
    }

    fn each(&self) -> [&dyn Upstream; 2] {
        [&self.embedded, &self.postgres]
    }
}

/// Whole microseconds, the resolution of Postgres.
pub(crate) fn now() -> Timestamp {
    Timestamp::from_microsecond(Timestamp::now().as_microsecond()).expect("a time")
}

pub(crate) fn gene(number: u128, domain: &str, fitness: &[(u32, f64)]) -> CatalogueGene {
    let evaluation = |&(age_minutes, fitness_value): &(u32, f64)| CatalogueEvaluation {
        age_minutes,
        fitness_value,
        total_calls: 7,
    };
    CatalogueGene {
        id: Uuid::from_u128(number),
        name: format!("gene {number}"),
        domain: domain.to_owned(),
        fidelity: "Native".to_owned(),
        description: String::new(),
        owner: "owner".to_owned(),
        reputation_score: 0.0,
        downloads: 0,
        published: true,
        phenotype: None,
        install_command: None,
        min_playground_version: None,
        required_fidelity: None,
        evaluations: fitness.iter().map(evaluation).collect(),
    }
}

pub(crate) fn domain(name: &str) -> DomainName {
    name.parse().expect("a domain")
}

#[track_caller]
pub(crate) fn page(limit: u64, offset: u64) -> Page {
    Page::new(PageLimit::new(limit).expect("a limit"), PageOffset::new(offset).expect("an offset"))
}

/// All ids of a search, read page by page; checks that the total is the same on every page.
pub(crate) async fn walk(
    upstream: &dyn Upstream,
    filter: &GeneFilter,
    sort: Sort,
    limit: u64,
) -> (Vec<GeneId>, u64) {
    let (mut ids, mut total) = (Vec::new(), None);
    loop {
        let page = page(limit, ids.len() as u64);
        let search = GeneSearch { filter: filter.clone(), sort, page };
        let found = upstream.search(&search).await.expect("a page").value;
        assert_eq!(*total.get_or_insert(found.total.get()), found.total.get());
        assert!(found.data.len() as u64 <= limit);
        ids.extend(found.data.iter().map(|gene| gene.id));
        if found.data.is_empty() {
            return (ids, total.unwrap_or_default());
        }
    }
}

fn many_with_three_scores() -> Vec<CatalogueGene> {
    let mut genes: Vec<CatalogueGene> = (0..2_000_u128)
        .map(|number| {
            let score = (number * 7 % 3) as f64 / 2.0;
            // The order of the ids is unlike any sort order.
            let id = number.wrapping_mul(0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835);
            let mut gene = gene(id, &format!("d{}", number % 4), &[(number as u32, score)]);
            gene.fidelity = Fidelity::ALL[(number % 3) as usize].as_str().to_owned();
            gene.reputation_score = score;
            gene.downloads = score as i64;
            gene
        })
        .collect();
    genes[5].published = false;
    genes
}

#[tokio::test]
async fn pages_show_every_gene_once_in_the_same_order() {
    let both = BothUpstreams::of(many_with_three_scores()).await;
    let filters = [
        (GeneFilter::default(), 1_999),
        (GeneFilter { domain: Some(domain("d1")), fidelity: None }, 499),
        (GeneFilter { domain: None, fidelity: Some(Fidelity::Hybrid) }, 667),
        (GeneFilter { domain: Some(domain("d2")), fidelity: Some(Fidelity::Native) }, 167),
    ];
    for (filter, expected) in filters {
        for sort in Sort::ALL {
            let (reference, _) = walk(&both.embedded, &filter, sort, 50).await;
            for upstream in both.each() {
                let (ids, total) = walk(upstream, &filter, sort, 47).await;
                assert_eq!(ids.iter().collect::<HashSet<_>>().len(), ids.len());
                assert_eq!((ids.len() as u64, total), (expected, expected), "{filter:?}");
                assert_eq!(ids, reference, "{filter:?} {sort:?}");
            }
        }
    }
}

#[tokio::test]
async fn numbers_count_the_genes_of_each_domain_and_list_the_largest_first() {
    let mut genes: Vec<_> = ["b", "a", "c", "a", "\u{1F9EC}"]
        .into_iter()
        .zip(1..)
        .map(|(domain, number)| gene(number, domain, &[]))
        .collect();
    genes.push(CatalogueGene { published: false, ..gene(7, "a", &[]) });
    for (genes, all, total, listed) in [
        (genes, 5, 4, &[("a", 2), ("b", 1), ("c", 1), ("\u{1F9EC}", 1)][..]),
        (Vec::new(), 0, 0, &[]),
    ] {
        for upstream in BothUpstreams::of(genes).await.each() {
            let numbers = upstream.numbers().await.expect("numbers").value;
            let found = numbers.domains.iter().map(|one| (&*one.domain, one.genes.get()));
            assert_eq!(found.collect::<Vec<_>>(), listed);
            assert_eq!((numbers.genes.get(), numbers.total_domains.get()), (all, total));
        }
    }
}

#[tokio::test]
async fn a_page_past_the_end_is_empty_with_the_total() {
    let both = BothUpstreams::of(vec![gene(1, "d", &[]), gene(2, "d", &[])]).await;
    for upstream in both.each() {
        for (offset, filter, total) in [
            (2, GeneFilter::default(), 2),
            (2_147_483_647, GeneFilter::default(), 2),
            (0, GeneFilter { domain: Some(domain("none")), fidelity: None }, 0),
            (0, GeneFilter { domain: Some(domain("%")), fidelity: None }, 0),
        ] {
            let page = page(20, offset);
            let search = GeneSearch { filter, sort: Sort::Fitness, page };
            let found = upstream.search(&search).await.expect("a page").value;
            assert!(found.data.is_empty());
            assert_eq!((found.total.get(), u64::from(found.offset)), (total, offset));
        }
    }
}

#[tokio::test]
async fn empty_fields_have_their_documented_values_and_unpublished_genes_do_not_exist() {
    let mut hidden = gene(2, "hidden", &[(1, 0.5)]);
    hidden.published = false;
    let both = BothUpstreams::of(vec![gene(1, "d", &[]), hidden]).await;
    for upstream in both.each() {
        let page = upstream.search(&GeneSearch::default()).await.expect("a page").value;
        let shown = serde_json::to_value(&page).expect("json");
        assert_eq!(
            shown["data"],
            json!([{"id": "00000000-0000-0000-0000-000000000001", "name": "gene 1", "domain": "d",
                "fidelity": "Native", "description": "", "fitness_score": 0.0,
                "reputation_score": 0.0, "owner": "owner", "downloads": 0, "arena_rank": 1,
                "arena_history": []}])
        );
        let found = upstream.phenotype(Uuid::from_u128(1).into()).await.expect("a read").value;
        let shown = serde_json::to_value(found.expect("a gene")).expect("json");
        assert_eq!(shown["install_command"], "install 00000000-0000-0000-0000-000000000001");
        assert_eq!(shown["compatibility"]["min_playground_version"], "0.0.0");
        assert_eq!(shown["compatibility"]["required_fidelity"], "Native");
        assert_eq!(shown["phenotype"]["input"], json!({"type": "object", "properties": {}}));
        let hidden = upstream.phenotype(Uuid::from_u128(2).into()).await.expect("a read");
        assert_eq!(hidden.value, None);
        let insights = upstream.insights(&domain("hidden"), both.now).await.expect("a read");
        assert_eq!(insights.value, None);
    }
}

#[tokio::test]
async fn history_is_the_newest_ten_and_ties_have_one_order() {
    let mut evaluations: Vec<(u32, f64)> = (0..12).map(|age| (age, 0.5)).collect();
    evaluations.insert(3, (3, 0.75));
    let both = BothUpstreams::of(vec![gene(1, "d", &evaluations)]).await;
    for upstream in both.each() {
        let page = upstream.search(&GeneSearch::default()).await.expect("a page").value;
        let history = &page.data[0].arena_history;
        assert_eq!(history.len(), 10);
        let values: Vec<f64> = history.iter().map(|entry| entry.fitness_value).collect();
        assert_eq!(values, [0.5, 0.5, 0.5, 0.75, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5]);
        assert_eq!(history[0].evaluated_at, both.now);
    }
}

/// A domain's genes and its expected insights: gene count, H', turnover, top ids, mean,
/// evaluations.
type ArenaCase = (Vec<CatalogueGene>, u64, f64, f64, &'static [u128], f64, u64);

fn arenas() -> Vec<ArenaCase> {
    let ln2 = std::f64::consts::LN_2;
    let old = 30 * DAY;
    let mut other = gene(1, "d", &[(old, 0.5), (old + 1, 0.1)]);
    other
        .evaluations
        .insert(0, CatalogueEvaluation { age_minutes: 1, fitness_value: 0.0, total_calls: 1 });
    vec![
        // One gene without evaluations, and one gene with one evaluation.
        (vec![gene(1, "d", &[])], 1, 0.0, 0.0, &[], 0.0, 0),
        (vec![gene(1, "d", &[(5, 0.8)])], 1, 0.0, 0.0, &[1], 0.8, 1),
        // Equal fitness: the lower id comes first.
        (vec![gene(2, "d", &[(5, 0.5)]), gene(1, "d", &[(9, 0.5)])], 2, ln2, 0.0, &[1, 2], 0.5, 2),
        // Fitness above 1 is not clipped: the shares are 3/4 and 1/4.
        (
            vec![gene(1, "d", &[(5, 1.0)]), gene(2, "d", &[(5, 3.0)])],
            2,
            4_f64.ln() - 0.75 * 3_f64.ln(),
            0.0,
            &[2, 1],
            2.0,
            2,
        ),
        // A share of zero is skipped, but its evaluation counts.
        (vec![gene(1, "d", &[(5, 0.0)]), gene(2, "d", &[(5, 0.8)])], 2, 0.0, 0.0, &[2, 1], 0.4, 2),
        // Evaluated exactly 30 days ago: in the earlier top five, whatever its fitness since.
        (vec![other], 1, 0.0, 0.0, &[1], 0.0, 3),
        // First evaluated later: not in the earlier top five.
        (vec![gene(1, "d", &[(old - 1, 0.5)])], 1, 0.0, 0.0, &[1], 0.5, 1),
        // Fewer than five genes then, more now: one of the two earlier ones has dropped out.
        (
            (1..=6)
                .map(|n| match n {
                    1 | 2 => gene(n, "d", &[(5, if n == 1 { 0.1 } else { 0.9 }), (old, 0.9)]),
                    _ => gene(n, "d", &[(5, 0.5)]),
                })
                .collect(),
            6,
            {
                let f = [0.1, 0.9, 0.5, 0.5, 0.5, 0.5];
                let s: f64 = f.iter().sum();
                -f.iter().map(|f| f / s * (f / s).ln()).sum::<f64>()
            },
            0.5,
            &[2, 3, 4, 5, 6],
            0.5,
            8,
        ),
        // A tie at place five, then and now: the lower id is in the top five.
        (
            (1..=6).map(|n| gene(n, "d", &[(5, 0.5), (old + 5, 0.5)])).collect(),
            6,
            6_f64.ln(),
            0.0,
            &[1, 2, 3, 4, 5],
            0.5,
            12,
        ),
    ]
}

#[tokio::test]
async fn insights_match_hand_computed_examples() {
    // One database for all arenas: each has its own domain and its own range of ids.
    let mut genes = vec![gene(u128::MAX, "another domain", &[(1, 99.0)])];
    for (number, arena) in arenas().into_iter().enumerate() {
        genes.extend(arena.0.into_iter().map(|mut gene| {
            gene.id = Uuid::from_u128(gene.id.as_u128() + (number as u128 + 1) * 1_000);
            gene.domain = format!("d{number}");
            gene
        }));
    }
    let both = BothUpstreams::of(genes).await;
    for (number, (_, genes, entropy, turnover, top, mean, evaluations)) in
        arenas().into_iter().enumerate()
    {
        for upstream in both.each() {
            let read = upstream.insights(&domain(&format!("d{number}")), both.now).await;
            let found = read.expect("a read").value.expect("a domain");
            let names: Vec<&str> = found.top_genes.iter().map(|gene| gene.name.as_str()).collect();
            let expected: Vec<String> = top.iter().map(|id| format!("gene {id}")).collect();
            assert_eq!(names, expected, "{number}");
            assert_eq!(found.gene_count.get(), genes, "{number}");
            assert_eq!(found.total_arena_evaluations.get(), evaluations, "{number}");
            assert!((found.shannon_diversity - entropy).abs() < 1e-9, "{number}: {found:?}");
            assert!((found.turnover_rate - turnover).abs() < 1e-9, "{number}: {found:?}");
            assert!((found.avg_fitness - mean).abs() < 1e-9, "{number}: {found:?}");
        }
    }
}

#[tokio::test]
async fn trends_follow_the_newest_five_evaluations() {
    let both = BothUpstreams::of(vec![
        gene(1, "d", &[(1, 0.9), (2, 0.5), (3, 0.5), (4, 0.5), (5, 0.5), (6, 9.0)]),
        gene(2, "d", &[(1, 0.4), (2, 0.5)]),
        gene(3, "d", &[(1, 0.3)]),
    ])
    .await;
    for upstream in both.each() {
        let read = upstream.insights(&domain("d"), both.now).await.expect("a read");
        let top = read.value.expect("a domain").top_genes;
        let trends: Vec<Trend> = top.iter().map(|gene| gene.trend).collect();
        assert_eq!(trends, [Trend::Rising, Trend::Declining, Trend::Stable]);
    }
}
