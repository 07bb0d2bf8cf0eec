//! Loads genes into an empty default registry: by COPY into a temporary table, then in sorted order
//! into the tables, with owners and ranks. Indexes are built at the end.

use std::pin::pin;

use thiserror::Error;
use tokio_postgres::binary_copy::BinaryCopyInWriter;
use tokio_postgres::types::{Json, Type};
use tokio_postgres::{Client, Transaction};

use super::error::StatementError;
use crate::net::PgTimestamp;
use crate::registry::{CatalogueEvaluation, CatalogueGene, Timestamp};
use crate::upstream::postgres::QueryParam;

/// How much was loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoadedRegistry {
    /// Number of genes, including unpublished ones.
    pub genes: u64,
    /// Number of evaluations.
    pub evaluations: u64,
}

/// Why a catalogue could not be loaded.
#[derive(Debug, Error)]
pub enum SeedError {
    /// A statement failed. The registry is unchanged.
    #[error(transparent)]
    Database(StatementError),
    /// The connection was lost during the commit, so it is unknown whether the genes were loaded.
    #[error("the connection to the database was lost during the commit")]
    Unknown(#[source] tokio_postgres::Error),
}

impl From<tokio_postgres::Error> for SeedError {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Database(error.into())
    }
}

/// Genes in one COPY. Bounds the memory, whatever the size of the registry.
const BATCH_GENES: usize = 5_000;

/// A concurrent load waits here, and then finds the registry filled. A client that stalls does not keep
/// its locks.
const LOCK_GENES: &str = "SET LOCAL idle_in_transaction_session_timeout = '60s';
    LOCK TABLE registry.gene IN SHARE ROW EXCLUSIVE MODE";

const STAGE: &str = "SET LOCAL work_mem = '128MB';
    SET LOCAL maintenance_work_mem = '256MB';
    CREATE TEMP TABLE new_gene (
        id uuid, name text, domain text COLLATE \"C\", fidelity text, description text,
        owner text, fitness_score float8, reputation_score float8, downloads bigint,
        phenotype jsonb, install_command text, min_playground_version text,
        required_fidelity text, published boolean
    ) ON COMMIT DROP";

const COPY_GENES: &str = "COPY new_gene FROM STDIN BINARY";

const COPY_EVALUATIONS: &str = "COPY registry.arena_evaluation
    (gene_id, fitness_value, evaluated_at, total_calls) FROM STDIN BINARY";
const EVALUATION_TYPES: &[Type] = &[Type::UUID, Type::FLOAT8, Type::TIMESTAMPTZ, Type::INT8];

/// Triggers are disabled: the whole load is one change `all` in the change log. Genes are stored in
/// the order of their domain and rank.
const INSERT: &str = "INSERT INTO registry.owner (handle)
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

/// A registry without genes, locked against concurrent loads. Changes take effect when it is
/// committed.
pub struct EmptyRegistry<'a> {
    transaction: Transaction<'a>,
}

impl<'a> EmptyRegistry<'a> {
    /// Locks the registry; `None` if it has genes already.
    ///
    /// # Errors
    /// [`SeedError::Database`].
    pub async fn lock(client: &'a mut Client) -> Result<Option<Self>, SeedError> {
        let transaction = client.transaction().await?;
        transaction.batch_execute(LOCK_GENES).await?;
        let filled = "SELECT EXISTS (SELECT FROM registry.gene)";
        let is_filled: bool = transaction.query_one(filled, &[]).await?.try_get(0)?;
        Ok((!is_filled).then_some(Self { transaction }))
    }

    /// The transaction, for rows to store together with the genes.
    pub const fn transaction(&self) -> &Transaction<'a> {
        &self.transaction
    }

    /// Loads `genes`. The ages of evaluations are relative to `now`. `progress` is called with the
    /// number of genes sent so far.
    ///
    /// # Errors
    /// [`SeedError::Database`]: the user may not change the tables, two genes have the same id, or
    /// a gene violates the contract.
    pub async fn fill(
        &self,
        genes: impl Iterator<Item = CatalogueGene>,
        now: Timestamp,
        mut progress: impl FnMut(u64),
    ) -> Result<LoadedRegistry, SeedError> {
        let transaction = &self.transaction;
        transaction.batch_execute(STAGE).await?;
        let dropped = drop_indexes(transaction).await?;
        let mut loaded = LoadedRegistry { genes: 0, evaluations: 0 };
        let mut genes = genes.peekable();
        while genes.peek().is_some() {
            let batch: Vec<CatalogueGene> = genes.by_ref().take(BATCH_GENES).collect();
            loaded.genes += copy_genes(transaction, &batch).await?;
            loaded.evaluations += copy_evaluations(transaction, &batch, now).await?;
            progress(loaded.genes);
        }
        transaction.batch_execute(INSERT).await?;
        transaction.batch_execute(&dropped.join(";")).await?;
        Ok(loaded)
    }

    /// Commits the changes. [`vacuum`] should follow.
    ///
    /// # Errors
    /// [`SeedError::Database`]: the registry is unchanged. [`SeedError::Unknown`].
    pub async fn commit(self) -> Result<(), SeedError> {
        self.transaction.commit().await.map_err(|error| match error.as_db_error() {
            Some(_) => error.into(),
            None => SeedError::Unknown(error),
        })
    }
}

/// Marks all pages as all-visible, which index-only scans need, and updates the planner's
/// statistics. A transaction that began before the load, often the server's own maintenance, prevents
/// that for some pages, so it is repeated until all are marked, for ten seconds at most.
///
/// # Errors
/// [`SeedError::Database`]; the loaded genes stay loaded.
pub async fn vacuum(client: &Client) -> Result<(), SeedError> {
    let hidden = "SELECT EXISTS (SELECT FROM pg_class
        WHERE oid IN ('registry.gene'::regclass, 'registry.arena_evaluation'::regclass)
        AND relallvisible < relpages)";
    let analyze = "VACUUM (ANALYZE) registry.owner, registry.gene, registry.arena_evaluation";
    client.batch_execute(analyze).await?;
    for _ in 0..20 {
        if !client.query_one(hidden, &[]).await?.try_get::<_, bool>(0)? {
            return Ok(());
        }
        tokio::time::sleep(std::time::Duration::from_millis(500)).await;
        client.batch_execute("VACUUM registry.gene, registry.arena_evaluation").await?;
    }
    Ok(())
}

async fn copy_genes(
    transaction: &Transaction<'_>,
    genes: &[CatalogueGene],
) -> Result<u64, tokio_postgres::Error> {
    let table = transaction.prepare("SELECT * FROM new_gene").await?;
    let types: Vec<Type> = table.columns().iter().map(|column| column.type_().clone()).collect();
    let sink = transaction.copy_in(COPY_GENES).await?;
    let mut writer = pin!(BinaryCopyInWriter::new(sink, &types));
    for gene in genes {
        let fitness_score = gene.fitness_score();
        let phenotype = gene.phenotype.as_ref().map(Json);
        let row: [QueryParam<'_>; 14] = [
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
            let evaluated_at = PgTimestamp(evaluation.evaluated_at(now));
            let row: [QueryParam<'_>; 4] =
                [&gene.id, &evaluation.fitness_value, &evaluated_at, &evaluation.total_calls];
            writer.as_mut().write(&row).await?;
        }
    }
    writer.finish().await
}

impl CatalogueEvaluation {
    /// The time of the evaluation, relative to `now`.
    pub fn evaluated_at(&self, now: Timestamp) -> Timestamp {
        let age = jiff::SignedDuration::from_mins(i64::from(self.age_minutes));
        now.saturating_sub(age).unwrap_or(Timestamp::MIN)
    }
}

/// For each index and foreign key that the load would update row by row: the statement that drops
/// it, and the one that creates it again.
const DROP_AND_CREATE: &str =
    "(SELECT 'DROP INDEX ' || indexrelid::regclass, pg_get_indexdef(indexrelid)
        FROM pg_index
        WHERE indrelid IN ('registry.gene'::regclass, 'registry.arena_evaluation'::regclass)
            AND NOT indisunique
        ORDER BY indexrelid)
    UNION ALL
    SELECT 'ALTER TABLE ' || conrelid::regclass || ' DROP CONSTRAINT ' || quote_ident(conname),
        'ALTER TABLE ' || conrelid::regclass || ' ADD CONSTRAINT ' || quote_ident(conname)
            || ' ' || pg_get_constraintdef(oid)
    FROM pg_constraint
    WHERE conrelid = 'registry.arena_evaluation'::regclass AND contype = 'f'";

/// Drops indexes and foreign keys, and disables triggers. Returns the statements that undo this.
async fn drop_indexes(transaction: &Transaction<'_>) -> Result<Vec<String>, tokio_postgres::Error> {
    transaction.batch_execute("ALTER TABLE registry.gene DISABLE TRIGGER USER").await?;
    let mut undo = Vec::new();
    for row in transaction.query(DROP_AND_CREATE, &[]).await? {
        transaction.batch_execute(row.try_get(0)?).await?;
        undo.push(row.try_get(1)?);
    }
    undo.push("ALTER TABLE registry.gene ENABLE TRIGGER USER".to_owned());
    Ok(undo)
}
