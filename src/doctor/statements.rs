//! The statements of the service, with values as requests have them.

use tokio_postgres::Error;
use tokio_postgres::types::{ToSql, Type};
use uuid::Uuid;

use super::session::{Session, TypedValue};
use crate::net::PgTimestamp;
use crate::registry::{DomainName, Fidelity, GeneFilter, GeneSearch, Page, Sort, Timestamp};
use crate::upstream::postgres::{API_KEYS, INSIGHTS, PHENOTYPE, Statement, search_statement};

/// A domain with many genes, from some rows of the view.
const COMMON_DOMAIN: &str = "SELECT domain FROM (
        SELECT domain::text AS domain FROM registry_read.gene LIMIT 10000
    ) sample WHERE domain <> '' GROUP BY domain ORDER BY count(*) DESC, domain LIMIT 1";

/// A statement for genes or keys.
pub(super) struct ServiceStatement {
    /// The kind of requests that it is for.
    pub(super) group: &'static str,
    /// What it reads.
    pub(super) name: String,
    pub(super) statement: Statement,
    /// The parameters that are texts, in their order.
    texts: Vec<String>,
    id: Uuid,
    hashes: Vec<Vec<u8>>,
    now: PgTimestamp,
}

impl ServiceStatement {
    fn new(group: &'static str, statement: Statement, texts: &[&str]) -> Self {
        Self {
            group,
            name: group.to_owned(),
            statement,
            texts: texts.iter().map(|&text| text.to_owned()).collect(),
            id: Uuid::nil(),
            hashes: vec![vec![0; 32]],
            now: PgTimestamp(Timestamp::now()),
        }
    }

    /// Its parameters. Numbers are the size and the offset of a page.
    pub(super) fn values(&self) -> Vec<TypedValue<'_>> {
        let mut texts = self.texts.iter();
        let value = |kind: &Type| -> TypedValue<'_> {
            let value: &(dyn ToSql + Sync) = match *kind {
                Type::UUID => &self.id,
                Type::TIMESTAMPTZ => &self.now,
                Type::BYTEA_ARRAY => &self.hashes,
                Type::TEXT => match texts.next() {
                    Some(text) => text,
                    None => &"",
                },
                _ => &20_i64,
            };
            (value, kind.clone())
        };
        self.statement.types.iter().map(value).collect()
    }
}

/// The statements for genes and keys.
pub(super) async fn statements(session: &mut Session) -> Result<Vec<ServiceStatement>, Error> {
    // `rows` reports a column that cannot be read.
    let common = session.rows(COMMON_DOMAIN).await.unwrap_or_default();
    let common: Option<String> = common.first().map(|row| row.try_get("domain")).transpose()?;
    let domain = common.unwrap_or_else(|| "domain".to_owned());
    let mut statements = searches(&domain);
    statements.extend([
        ServiceStatement::new("phenotypes", PHENOTYPE.clone(), &[]),
        ServiceStatement::new("insights", INSIGHTS.clone(), &[&domain]),
        ServiceStatement::new("API keys", API_KEYS.clone(), &[]),
    ]);
    Ok(statements)
}

/// One for each combination of filter and sort.
fn searches(domain: &str) -> Vec<ServiceStatement> {
    let any_domain: Option<DomainName> = "domain".parse().ok();
    let fidelity = Some(Fidelity::Native);
    let mut statements = Vec::new();
    for (by, domain_filter, fidelity, texts) in [
        ("", None, None, &[][..]),
        (" by domain", any_domain.clone(), None, &[domain][..]),
        (" by fidelity", None, fidelity, &["Native"][..]),
        (" by domain and fidelity", any_domain, fidelity, &[domain, "Native"][..]),
    ] {
        let filter = GeneFilter { domain: domain_filter, fidelity };
        for sort in Sort::ALL {
            let search = GeneSearch { filter: filter.clone(), sort, page: Page::default() };
            let types =
                [Type::INT8, Type::INT8].into_iter().chain(texts.iter().map(|_| Type::TEXT));
            let statement = Statement { sql: search_statement(&search), types: types.collect() };
            let name = format!("the search{by}, sorted by {}", sort.as_str());
            statements.push(ServiceStatement {
                name,
                ..ServiceStatement::new("searches", statement, texts)
            });
        }
    }
    statements
}
