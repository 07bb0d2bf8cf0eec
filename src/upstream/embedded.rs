//! A registry in memory. `demo` serves it, and tests compare the Postgres registry with it.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;

use super::change::Changes;
use super::embedded_keys::EmbeddedKeys;
use super::error::UpstreamError;
use super::history::Position;
use super::read::Read;
use super::snapshot::Snapshot;
use super::source::{ChangeFeed, RegistryReader, Upstream};
use crate::registry::arena::{
    DomainStanding, FitnessSums, StandingGene, TOP_GENES, TREND_EVALUATIONS, insights,
    turnover_begins,
};
use crate::registry::{
    ApiKeyRecord, ArenaInsights, Catalogue, CatalogueEvaluation, CatalogueGene, Count, DomainCount,
    DomainName, GeneCounts, GeneFilter, GeneId, GenePage, GenePhenotype, GeneSearch, GeneSummary,
    KeyHash, RawEvaluation, RawGene, RegistryNumbers, Sort, Timestamp,
};

/// A gene of a registry in memory.
#[derive(Debug, Clone, PartialEq)]
pub struct EmbeddedGene {
    /// The gene.
    pub raw: RawGene,
    /// Its evaluations, in any order.
    pub evaluations: Vec<RawEvaluation>,
    /// Whether it is published; unpublished genes are never returned.
    pub published: bool,
}

/// A registry in memory. Its genes never change; its keys may.
pub struct Embedded {
    /// Only published genes; their evaluations newest first, without invalid ones.
    genes: Vec<EmbeddedGene>,
    keys: Arc<EmbeddedKeys>,
    install_template: String,
}

impl Embedded {
    /// A registry of these genes and keys.
    pub fn new(
        mut genes: Vec<EmbeddedGene>,
        keys: Vec<ApiKeyRecord>,
        install_template: String,
    ) -> Self {
        genes.retain(|gene| gene.published);
        for gene in &mut genes {
            gene.evaluations.retain(RawEvaluation::is_valid);
            gene.evaluations.sort_by(RawEvaluation::newest_first);
        }
        let keys = Arc::new(EmbeddedKeys::new(keys, Timestamp::now()));
        Self { genes, keys, install_template }
    }

    /// The store of its keys.
    pub fn keys(&self) -> Arc<EmbeddedKeys> {
        Arc::clone(&self.keys)
    }

    fn read<T>(&self, value: T) -> Read<T> {
        Read { value, seen: self.keys.seen() }
    }

    /// The registry of a catalogue, with the ages of evaluations relative to `now`, and exact ranks.
    pub fn from_catalogue(
        catalogue: &Catalogue,
        now: Timestamp,
        keys: Vec<ApiKeyRecord>,
        install_template: String,
    ) -> Self {
        let genes = catalogue.genes.iter().map(|gene| embedded(gene, now)).collect();
        let mut registry = Self::new(genes, keys, install_template);
        registry.rank();
        registry
    }

    /// Sets the ranks: 1-based, within each domain, by fitness descending, then id.
    fn rank(&mut self) {
        self.genes.sort_by(|a, b| {
            let by_domain = a.raw.domain.cmp(&b.raw.domain);
            by_domain.then_with(|| best_first(Sort::Fitness, &a.raw, &b.raw))
        });
        for domain in self.genes.chunk_by_mut(|a, b| a.raw.domain == b.raw.domain) {
            for (rank, gene) in (1..).zip(domain) {
                gene.raw.arena_rank = Some(rank);
            }
        }
    }

    /// The published genes within the contract that match the filter.
    fn counts(&self, filter: &GeneFilter) -> GeneCounts {
        let total = Count::saturating(self.matching(filter).count() as i64);
        GeneCounts { total, broken: Count::default() }
    }

    fn matching<'a>(&'a self, filter: &'a GeneFilter) -> impl Iterator<Item = &'a EmbeddedGene> {
        let domain = filter.domain.as_ref().map(DomainName::as_str);
        let fidelity = filter.fidelity.map(|fidelity| fidelity.as_str());
        self.genes.iter().filter(move |gene| {
            (domain.is_none() || gene.raw.domain.as_deref() == domain)
                && (fidelity.is_none() || gene.raw.fidelity.as_deref() == fidelity)
                && gene.raw.check().is_ok()
        })
    }
}

fn embedded(gene: &CatalogueGene, now: Timestamp) -> EmbeddedGene {
    let evaluation = |e: &CatalogueEvaluation| RawEvaluation {
        fitness_value: e.fitness_value,
        evaluated_at: e.evaluated_at(now),
        total_calls: Some(e.total_calls),
    };
    EmbeddedGene {
        raw: RawGene {
            id: gene.id,
            name: Some(gene.name.clone()),
            domain: Some(gene.domain.clone()),
            fidelity: Some(gene.fidelity.clone()),
            description: Some(gene.description.clone()),
            owner: Some(gene.owner.clone()),
            fitness_score: Some(gene.fitness_score()),
            reputation_score: Some(gene.reputation_score),
            downloads: Some(gene.downloads),
            arena_rank: None,
            phenotype: gene.phenotype.clone(),
            install_command: gene.install_command.clone(),
            min_playground_version: gene.min_playground_version.clone(),
            required_fidelity: gene.required_fidelity.clone(),
        },
        evaluations: gene.evaluations.iter().map(evaluation).collect(),
        published: gene.published,
    }
}

fn fitness(gene: &RawGene) -> f64 {
    gene.fitness_score.unwrap_or(0.0) + 0.0
}

/// Orders descending by the published value, then by id.
fn best_first(sort: Sort, a: &RawGene, b: &RawGene) -> std::cmp::Ordering {
    let reputation = |gene: &RawGene| gene.reputation_score.unwrap_or(0.0) + 0.0;
    let downloads = |gene: &RawGene| Count::saturating(gene.downloads.unwrap_or(0));
    let descending = match sort {
        Sort::Fitness => fitness(b).total_cmp(&fitness(a)),
        Sort::Reputation => reputation(b).total_cmp(&reputation(a)),
        Sort::Downloads => downloads(b).cmp(&downloads(a)),
    };
    descending.then(a.id.cmp(&b.id))
}

#[async_trait]
impl RegistryReader for Embedded {
    async fn count(&self, filter: &GeneFilter) -> Result<Read<GeneCounts>, UpstreamError> {
        Ok(self.read(self.counts(filter)))
    }

    async fn search(&self, search: &GeneSearch) -> Result<Read<GenePage>, UpstreamError> {
        let mut found: Vec<&EmbeddedGene> = self.matching(&search.filter).collect();
        found.sort_by(|a, b| best_first(search.sort, &a.raw, &b.raw));
        let data: Result<Vec<_>, _> = found
            .iter()
            .skip(usize::try_from(search.page.offset()).unwrap_or(usize::MAX))
            .take(usize::from(search.page.limit()))
            .map(|gene| gene.raw.clone().into_summary(gene.evaluations.clone()))
            .collect();
        let counts = self.counts(&search.filter);
        Ok(self.read(GenePage::new(search.page, data?, counts)))
    }

    async fn page(&self, search: &GeneSearch) -> Result<Read<Vec<GeneSummary>>, UpstreamError> {
        Ok(self.search(search).await?.map(|page| page.data))
    }

    async fn phenotype(&self, id: GeneId) -> Result<Read<Option<GenePhenotype>>, UpstreamError> {
        let gene = self.genes.iter().find(|gene| gene.raw.id == id.uuid());
        let shown = gene.map(|gene| gene.raw.clone().into_phenotype(&self.install_template));
        Ok(self.read(shown.transpose()?))
    }

    async fn insights(
        &self,
        domain: &DomainName,
        now: Timestamp,
    ) -> Result<Read<Option<ArenaInsights>>, UpstreamError> {
        let filter = GeneFilter { domain: Some(domain.clone()), fidelity: None };
        let genes: Vec<&EmbeddedGene> = self.matching(&filter).collect();
        Ok(self.read(insights(domain, standing(&genes, now))))
    }

    async fn numbers(&self) -> Result<Read<RegistryNumbers>, UpstreamError> {
        let (mut genes, mut counts) = (0, BTreeMap::new());
        for gene in self.matching(&GeneFilter::default()) {
            genes += 1;
            if let Some(name) = gene.raw.domain.as_ref().filter(|name| !name.is_empty()) {
                *counts.entry(name.clone()).or_insert(0) += 1;
            }
        }
        let total_domains = Count::saturating(counts.len() as i64);
        let count = |(domain, genes)| DomainCount { domain, genes: Count::saturating(genes) };
        let mut domains: Vec<_> = counts.into_iter().map(count).collect();
        // Stable: domains of the same size stay in the order of their names.
        domains.sort_by_key(|domain| std::cmp::Reverse(domain.genes));
        domains.truncate(RegistryNumbers::MAX_DOMAINS);
        Ok(self.read(RegistryNumbers { genes: Count::saturating(genes), total_domains, domains }))
    }

    async fn api_keys(
        &self,
        hashes: &[KeyHash],
    ) -> Result<Read<Vec<Option<ApiKeyRecord>>>, UpstreamError> {
        Ok(self.keys.records(hashes))
    }
}

#[async_trait]
impl ChangeFeed for Embedded {
    async fn changes(&self, since: Option<&Snapshot>) -> Result<Read<Changes>, UpstreamError> {
        Ok(self.keys.changes(since))
    }

    async fn position(&self) -> Result<Position, UpstreamError> {
        Ok(Position::without_server(Timestamp::now()))
    }
}

impl Upstream for Embedded {}

fn standing(genes: &[&EmbeddedGene], now: Timestamp) -> DomainStanding {
    // Ascending, as in Postgres, so that rounding is the same.
    let mut ascending: Vec<f64> = genes.iter().map(|gene| fitness(&gene.raw)).collect();
    ascending.sort_by(f64::total_cmp);
    let mut sums = FitnessSums::up_to(ascending.last().copied().unwrap_or(0.0));
    ascending.into_iter().for_each(|fitness| sums.add(fitness));
    let mut evaluated: Vec<&EmbeddedGene> =
        genes.iter().copied().filter(|gene| !gene.evaluations.is_empty()).collect();
    evaluated.sort_by(|a, b| best_first(Sort::Fitness, &a.raw, &b.raw));
    DomainStanding {
        gene_count: genes.len() as i64,
        fitness: sums,
        evaluated_count: evaluated.len() as i64,
        evaluated_sum: evaluated.iter().rev().map(|gene| fitness(&gene.raw) / sums.scale).sum(),
        evaluations: genes.iter().map(|gene| gene.evaluations.len() as i64).sum(),
        top_now: evaluated.iter().take(TOP_GENES).map(|gene| standing_gene(gene)).collect(),
        top_then: top_at(&evaluated, turnover_begins(now)),
    }
}

fn standing_gene(gene: &EmbeddedGene) -> StandingGene {
    let newest = gene.evaluations.iter().take(TREND_EVALUATIONS);
    StandingGene {
        id: gene.raw.id.into(),
        name: gene.raw.name.clone().unwrap_or_default(),
        fitness: fitness(&gene.raw),
        newest_evaluations: newest.map(|evaluation| evaluation.fitness_value).collect(),
    }
}

/// The best genes by their newest evaluation at or before `then`.
fn top_at(evaluated: &[&EmbeddedGene], then: Timestamp) -> Vec<GeneId> {
    let mut standing: Vec<(f64, GeneId)> = evaluated
        .iter()
        .filter_map(|gene| {
            let newest = gene.evaluations.iter().find(|e| e.evaluated_at <= then)?;
            Some((newest.fitness_value + 0.0, gene.raw.id.into()))
        })
        .collect();
    standing.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    standing.into_iter().take(TOP_GENES).map(|(_, id)| id).collect()
}
