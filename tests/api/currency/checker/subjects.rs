//! What a run observes: genes and API keys, the requests that show them, and how a response is read.

use std::rc::Rc;

use serde_json::Value;
use tokio_postgres::Client;

use crate::support::replica::Response;

/// Genes that the writer changes; the first is always published.
pub(super) const GENES: usize = 4;

/// A gene that never changes, in a domain of its own.
pub(super) const STEADY: usize = GENES;

/// API keys that are revoked and made valid again.
pub(super) const KEYS: usize = 2;

/// Genes, then keys.
pub(super) const SUBJECTS: usize = GENES + 1 + KEYS;

pub(super) const DOMAIN: &str = "checked";
pub(super) const STEADY_DOMAIN: &str = "steady";

/// What a request is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Target {
    Changing,
    /// What never changes: once cached, it is never answered with an error.
    Steady,
    /// An API key, by its number.
    Key(usize),
}

/// A request that a reader repeats.
#[derive(Debug, Clone)]
pub(super) struct Request {
    pub(super) path: String,
    /// The path, or the name of the key.
    pub(super) name: Rc<str>,
    pub(super) target: Target,
}

impl Request {
    fn new(path: String, target: Target) -> Self {
        Self { name: Rc::from(&*path), path, target }
    }
}

pub(super) fn id(gene: usize) -> String {
    format!("00000000-0000-0000-0000-0000000c0de{gene}")
}

/// The requests of each reader of a replica.
pub(super) fn requests() -> Vec<Vec<Request>> {
    let request = |path: String| Request::new(path, Target::Changing);
    let steady = |path: String| Request::new(path, Target::Steady);
    let phenotype = |gene| format!("/genes/{}/phenotype", id(gene));
    let mut phenotypes: Vec<Request> = (0..GENES).map(|gene| request(phenotype(gene))).collect();
    phenotypes.push(steady(phenotype(STEADY)));
    let searches = vec![
        request(format!("/genes?domain={DOMAIN}&limit=50")),
        request(format!("/genes?limit={GENES}")),
        steady(format!("/genes?domain={STEADY_DOMAIN}")),
    ];
    let insights = vec![
        request(format!("/arena/insights?domain={DOMAIN}")),
        steady(format!("/arena/insights?domain={STEADY_DOMAIN}")),
    ];
    let keys = (0..KEYS).map(|key| Request {
        path: format!("/genes?domain={STEADY_DOMAIN}"),
        name: Rc::from(format!("key {key}")),
        target: Target::Key(key),
    });
    vec![phenotypes, searches, insights, keys.collect()]
}

/// Requests for what never changes, more than replicas read at once.
pub(super) fn crowd_requests() -> Vec<Request> {
    let sorts = ["fitness", "reputation", "downloads"];
    let path = |sort| {
        (1..=50)
            .map(move |limit| format!("/genes?domain={STEADY_DOMAIN}&sort={sort}&limit={limit}"))
    };
    sorts.into_iter().flat_map(path).map(|path| Request::new(path, Target::Steady)).collect()
}

/// The subjects in a response and the version of each; `None` if the response is not a valid one.
pub(super) fn shown(request: &Request, response: &Response) -> Option<Vec<(usize, Option<u64>)>> {
    let status = response.status.as_u16();
    if let Target::Key(key) = request.target {
        let version = match status {
            200 => Some(0),
            401 => None,
            _ => return None,
        };
        return Some(vec![(STEADY + 1 + key, version)]);
    }
    let is_phenotype = request.path.ends_with("/phenotype");
    let genes = if request.target == Target::Steady { STEADY..STEADY + 1 } else { 0..GENES };
    match (status, is_phenotype) {
        (200, _) => {}
        (404, true) => {
            let gene = genes.into_iter().find(|gene| request.path.contains(&id(*gene)))?;
            return Some(vec![(gene, None)]);
        }
        _ => return None,
    }
    let body: Value = serde_json::from_str(&response.text).ok()?;
    if is_phenotype {
        let (gene, version) = gene_and_version(&body)?;
        return request.path.contains(&id(gene)).then(|| vec![(gene, Some(version))]);
    }
    let list = body["data"].as_array().or_else(|| body["top_genes"].as_array())?;
    let total = body["total"].as_u64().or_else(|| body["gene_count"].as_u64())?;
    if request.path.contains("domain=") && total != list.len() as u64 {
        return None;
    }
    let listed: Vec<_> = list.iter().filter_map(gene_and_version).collect();
    let of = |gene| listed.iter().find(|(number, _)| *number == gene).map(|(_, version)| *version);
    Some(genes.map(|gene| (gene, of(gene))).collect())
}

/// The gene and version in a gene's name; `None` for genes that a run did not create.
fn gene_and_version(gene: &Value) -> Option<(usize, u64)> {
    let (number, version) = gene["name"].as_str()?.strip_prefix("checked ")?.split_once(' ')?;
    Some((number.parse().ok()?, version.parse().ok()?))
}

/// Creates the genes as version 0. Those that change are at the top of every list.
pub(super) async fn create_genes(client: &Client) {
    for gene in 0..=STEADY {
        let (domain, fitness) =
            if gene == STEADY { (STEADY_DOMAIN, 0.001) } else { (DOMAIN, 50.0 + gene as f64) };
        let id = id(gene);
        let sql = format!(
            "insert into registry.gene (id, domain, fidelity, owner_id, fitness_score, name)
             select '{id}', '{domain}', 'Native', min(id), {fitness}, 'checked {gene} 0'
             from registry.owner;
             insert into registry.arena_evaluation (gene_id, fitness_value)
             values ('{id}', {fitness})"
        );
        client.batch_execute(&sql).await.unwrap();
    }
}

/// The version of every subject in the database.
pub(super) async fn stored_versions(client: &Client, keys: &[String]) -> Vec<Option<u64>> {
    let mut versions = Vec::new();
    for gene in 0..=STEADY {
        let sql = "select name, published from registry.gene where id = $1::text::uuid";
        let row = client.query_one(sql, &[&id(gene)]).await.unwrap();
        let version = row.get::<_, &str>(0).rsplit(' ').next().unwrap().parse().unwrap();
        versions.push(row.get::<_, bool>(1).then_some(version));
    }
    for prefix in keys {
        let sql = "select revoked_at is null from registry.api_key where prefix = $1";
        let valid: bool = client.query_one(sql, &[prefix]).await.unwrap().get(0);
        versions.push(valid.then_some(0));
    }
    versions
}
