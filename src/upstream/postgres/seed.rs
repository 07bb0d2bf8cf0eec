//! Filling an empty default registry: by COPY into tables of this session alone, then sorted
//! into place with owners and ranks known, and the indexes built at the end.

use std::pin::pin;

use thiserror::Error;
use tokio_postgres::binary_copy::BinaryCopyInWriter;
use tokio_postgres::types::{Json, Type};
use tokio_postgres::{Client, Transaction};

use super::rows::Moment;
use crate::registry::Timestamp;
use crate::upstream::{CatalogueEvaluation, CatalogueGene};

/// What became of a catalogue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seeded {
    /// The registry has genes already; nothing was changed.
    AlreadyFilled,
    /// All of it is in the registry.
    Loaded(LoadedRegistry),
}

/// How much was loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoadedRegistry {
    /// Genes, unpublished ones too.
    pub genes: u64,
    /// Their evaluations.
    pub evaluations: u64,
}

/// Why a catalogue could not be loaded.
#[derive(Debug, Error)]
pub enum SeedError {
    /// The database refused a statement, or went away. Nothing of the catalogue is in the registry.
    #[error("the database refused a statement, or went away")]
    Database(#[from] tokio_postgres::Error),
    /// The connection was lost during the commit.
    #[error("the connection to the database was lost while all was being committed")]
    Unknown(#[source] tokio_postgres::Error),
}

/// Genes to one COPY: memory stays flat however many there are.
const BATCH: usize = 5_000;

const STAGE: &str = "SET LOCAL work_mem = '128MB';
    SET LOCAL maintenance_work_mem = '256MB';
    CREATE TEMP TABLE new_gene (
        id uuid, name text, domain text COLLATE \"C\", fidelity text, description text,
        owner text, fitness_score float8, reputation_score float8, downloads bigint,
        phenotype jsonb, install_command text, min_playground_version text,
        required_fidelity text, published boolean
    ) ON COMMIT DROP";

const COPY_GENES: &str = "COPY new_gene FROM STDIN BINARY";
const GENE_TYPES: &[Type] = &[
    Type::UUID,
    Type::TEXT,
    Type::TEXT,
    Type::TEXT,
    Type::TEXT,
    Type::TEXT,
    Type::FLOAT8,
    Type::FLOAT8,
    Type::INT8,
    Type::JSONB,
    Type::TEXT,
    Type::TEXT,
    Type::TEXT,
    Type::BOOL,
];

const COPY_EVALUATIONS: &str = "COPY registry.arena_evaluation
    (gene_id, fitness_value, evaluated_at, total_calls) FROM STDIN BINARY";
const EVALUATION_TYPES: &[Type] = &[Type::UUID, Type::FLOAT8, Type::TIMESTAMPTZ, Type::INT8];

/// Triggers are off: however much is loaded, it is one `all` in the log. Genes come to lie in
/// the order of their domain and rank.
const PLACE: &str = "INSERT INTO registry.owner (handle)
        SELECT DISTINCT owner FROM new_gene ORDER BY owner ON CONFLICT DO NOTHING;
    INSERT INTO registry.gene (id, name, domain, fidelity, description, owner_id, fitness_score,
        reputation_score, downloads, arena_rank, phenotype, install_command,
        min_playground_version, required_fidelity, published)
    SELECT n.id, name, domain, fidelity, description, o.id, fitness_score, reputation_score,
        downloads, CASE WHEN published THEN row_number() OVER (
            PARTITION BY domain, published ORDER BY fitness_score DESC, n.id) ELSE 0 END,
        coalesce(phenotype, '{}'), coalesce(install_command, ''),
        coalesce(min_playground_version, ''), required_fidelity, published
    FROM new_gene n JOIN registry.owner o ON o.handle = n.owner;
    INSERT INTO registry.change (scope) VALUES ('all')";

/// A registry without genes, which nobody else can fill meanwhile. Nothing that is done to it
/// remains unless it is committed.
pub struct EmptyRegistry<'a> {
    transaction: Transaction<'a>,
}

impl<'a> EmptyRegistry<'a> {
    /// Locks the registry; `None` where it has genes already.
    ///
    /// # Errors
    /// [`SeedError::Database`].
    pub async fn lock(client: &'a mut Client) -> Result<Option<Self>, SeedError> {
        let transaction = client.transaction().await?;
        // Two at once: the second waits, and finds the registry filled.
        transaction.batch_execute("LOCK TABLE registry.gene IN SHARE ROW EXCLUSIVE MODE").await?;
        let filled = "SELECT EXISTS (SELECT FROM registry.gene)";
        let is_filled: bool = transaction.query_one(filled, &[]).await?.try_get(0)?;
        Ok((!is_filled).then_some(Self { transaction }))
    }

    /// For what is to be stored together with the genes.
    pub const fn transaction(&self) -> &Transaction<'a> {
        &self.transaction
    }

    /// Loads `genes`; evaluations get the age they have at `now`. `progress` hears how many genes
    /// have been sent so far.
    ///
    /// # Errors
    /// [`SeedError::Database`]: the user may not change the tables, two genes have one id, or a
    /// gene breaks the contract.
    pub async fn fill(
        &self,
        genes: impl Iterator<Item = CatalogueGene>,
        now: Timestamp,
        mut progress: impl FnMut(u64),
    ) -> Result<LoadedRegistry, SeedError> {
        let transaction = &self.transaction;
        transaction.batch_execute(STAGE).await?;
        let set_aside = SetAside::take(transaction).await?;
        let mut loaded = LoadedRegistry { genes: 0, evaluations: 0 };
        let mut genes = genes.peekable();
        while genes.peek().is_some() {
            let batch: Vec<CatalogueGene> = genes.by_ref().take(BATCH).collect();
            loaded.genes += copy_genes(transaction, &batch).await?;
            loaded.evaluations += copy_evaluations(transaction, &batch, now).await?;
            progress(loaded.genes);
        }
        transaction.batch_execute(PLACE).await?;
        set_aside.put_back(transaction).await?;
        Ok(loaded)
    }

    /// Makes it remain. [`vacuum`] should follow.
    ///
    /// # Errors
    /// [`SeedError::Database`]: nothing remains. [`SeedError::Unknown`].
    pub async fn commit(self) -> Result<(), SeedError> {
        self.transaction.commit().await.map_err(|error| match error.as_db_error() {
            Some(_) => SeedError::Database(error),
            None => SeedError::Unknown(error),
        })
    }
}

/// Locks, fills, commits and vacuums a registry that is empty.
///
/// # Errors
/// [`SeedError`].
pub async fn load(
    client: &mut Client,
    genes: impl Iterator<Item = CatalogueGene>,
    now: Timestamp,
    progress: impl FnMut(u64),
) -> Result<Seeded, SeedError> {
    let Some(registry) = EmptyRegistry::lock(client).await? else {
        return Ok(Seeded::AlreadyFilled);
    };
    let loaded = registry.fill(genes, now, progress).await?;
    registry.commit().await?;
    vacuum(client).await?;
    Ok(Seeded::Loaded(loaded))
}

/// Marks all pages as visible, without which no scan is index-only, and counts what the planner
/// goes by. A transaction that began before the load hides pages from it (the server's own
/// housekeeping, often), so it is done again until that one has ended, but not for ever.
///
/// # Errors
/// [`SeedError::Database`]; what was loaded stays loaded.
pub async fn vacuum(client: &Client) -> Result<(), SeedError> {
    let hidden = "SELECT EXISTS (SELECT FROM pg_class
        WHERE oid IN ('registry.gene'::regclass, 'registry.arena_evaluation'::regclass)
        AND relallvisible < relpages)";
    for table in ["owner", "gene", "arena_evaluation"] {
        client.batch_execute(&format!("VACUUM (ANALYZE) registry.{table}")).await?;
    }
    for _ in 0..20 {
        if !client.query_one(hidden, &[]).await?.try_get::<_, bool>(0)? {
            return Ok(());
        }
        tokio::time::sleep(std::time::Duration::from_millis(500)).await;
        client.batch_execute("VACUUM registry.gene").await?;
        client.batch_execute("VACUUM registry.arena_evaluation").await?;
    }
    Ok(())
}

async fn copy_genes(
    transaction: &Transaction<'_>,
    genes: &[CatalogueGene],
) -> Result<u64, tokio_postgres::Error> {
    let sink = transaction.copy_in(COPY_GENES).await?;
    let mut writer = pin!(BinaryCopyInWriter::new(sink, GENE_TYPES));
    for gene in genes {
        let fitness_score = gene.fitness_score();
        let phenotype = gene.phenotype.as_ref().map(Json);
        let row: [super::pool::Value<'_>; 14] = [
            &gene.id,
            &gene.name,
            &gene.domain,
            &gene.fidelity,
            &gene.description,
            &gene.owner,
            &fitness_score,
            &gene.reputation_score,
            &gene.downloads,
            &phenotype,
            &gene.install_command,
            &gene.min_playground_version,
            &gene.required_fidelity,
            &gene.published,
        ];
        writer.as_mut().write(&row).await?;
    }
    writer.finish().await
}

async fn copy_evaluations(
    transaction: &Transaction<'_>,
    genes: &[CatalogueGene],
    now: Timestamp,
) -> Result<u64, tokio_postgres::Error> {
    let sink = transaction.copy_in(COPY_EVALUATIONS).await?;
    let mut writer = pin!(BinaryCopyInWriter::new(sink, EVALUATION_TYPES));
    for gene in genes {
        for evaluation in &gene.evaluations {
            let evaluated_at = Moment(evaluation.evaluated_at(now));
            let row: [super::pool::Value<'_>; 4] =
                [&gene.id, &evaluation.fitness_value, &evaluated_at, &evaluation.total_calls];
            writer.as_mut().write(&row).await?;
        }
    }
    writer.finish().await
}

impl CatalogueEvaluation {
    /// When it was, seen from `now`.
    pub fn evaluated_at(&self, now: Timestamp) -> Timestamp {
        let age = jiff::SignedDuration::from_mins(i64::from(self.age_minutes));
        now.saturating_sub(age).unwrap_or(Timestamp::MIN)
    }
}

/// What would be kept up to date row by row, taken away for the time of the load.
struct SetAside {
    create: Vec<String>,
}

impl SetAside {
    const TABLES: &str = "('registry.gene'::regclass, 'registry.arena_evaluation'::regclass)";

    async fn take(transaction: &Transaction<'_>) -> Result<Self, tokio_postgres::Error> {
        let indexes = format!(
            "SELECT 'DROP INDEX ' || indexrelid::regclass, pg_get_indexdef(indexrelid)
            FROM pg_index WHERE indrelid IN {} AND NOT indisunique ORDER BY indexrelid",
            Self::TABLES
        );
        let references = "SELECT 'ALTER TABLE ' || conrelid::regclass || ' DROP CONSTRAINT '
                || quote_ident(conname),
            'ALTER TABLE ' || conrelid::regclass || ' ADD CONSTRAINT ' || quote_ident(conname)
                || ' ' || pg_get_constraintdef(oid)
            FROM pg_constraint
            WHERE conrelid = 'registry.arena_evaluation'::regclass AND contype = 'f'";
        transaction.batch_execute("ALTER TABLE registry.gene DISABLE TRIGGER USER").await?;
        let mut create = Vec::new();
        for sql in [indexes.as_str(), references] {
            for row in transaction.query(sql, &[]).await? {
                transaction.batch_execute(row.try_get(0)?).await?;
                create.push(row.try_get(1)?);
            }
        }
        Ok(Self { create })
    }

    async fn put_back(&self, transaction: &Transaction<'_>) -> Result<(), tokio_postgres::Error> {
        for sql in &self.create {
            transaction.batch_execute(sql).await?;
        }
        transaction.batch_execute("ALTER TABLE registry.gene ENABLE TRIGGER USER").await
    }
}
