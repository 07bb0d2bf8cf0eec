//! The sums of a domain are the same in whatever order the database reads its rows.

use gene_registry::registry::ArenaInsights;
use gene_registry::upstream::{Postgres, RegistryReader};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::behaviour::{domain, now};
use super::database::{TEMPLATE, config, fresh_database};

/// Makes the two roles read in different orders: the owner's plans use indexes and so read by id;
/// the reader's scan the table in the order in which its rows were written.
const DIFFERENT_PLANS: &str = "DO $$ BEGIN
        EXECUTE format('ALTER DATABASE %I SET enable_seqscan = off', current_database());
        EXECUTE format('ALTER DATABASE %I SET enable_bitmapscan = off', current_database());
        EXECUTE format('ALTER ROLE gene_registry_reader IN DATABASE %I SET enable_seqscan = on',
            current_database());
        EXECUTE format('ALTER ROLE gene_registry_reader IN DATABASE %I SET enable_indexscan = off',
            current_database());
        EXECUTE format(
            'ALTER ROLE gene_registry_reader IN DATABASE %I SET enable_indexonlyscan = off',
            current_database());
    END $$;
    INSERT INTO registry.owner (handle) VALUES ('o')";

const FILL: &str = "WITH gone AS (DELETE FROM registry.gene),
    made AS (
        INSERT INTO registry.gene (name, domain, fidelity, owner_id, fitness_score)
        SELECT 'n', 'd', 'Native', (SELECT id FROM registry.owner), fitness
        FROM unnest($1::float8[]) fitness
        RETURNING id, fitness_score
    )
    INSERT INTO registry.arena_evaluation (gene_id, fitness_value)
    SELECT id, fitness_score FROM made";

#[test]
fn the_last_digits_do_not_depend_on_the_plan() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let (database, client) = runtime.block_on(async {
        let database = fresh_database().await;
        let client = database.client().await;
        client.batch_execute(DIFFERENT_PLANS).await.expect("set");
        (database, client)
    });
    let upstreams = [&database.url, &database.reader_url].map(|url| {
        let _inside = runtime.enter();
        Postgres::new(&config(url), TEMPLATE.to_owned()).expect("an upstream")
    });
    let mut runner =
        TestRunner::new(Config { cases: 40, failure_persistence: None, ..Config::default() });
    let fitness = prop_oneof![4 => 0.0..1.5_f64, 1 => 1e3..1e9_f64, 1 => 1e-9..1e-3_f64];
    let read = |upstream: &Postgres| -> ArenaInsights {
        let insights = runtime.block_on(upstream.insights(&domain("d"), now()));
        insights.expect("a read").value.expect("a domain")
    };
    runner
        .run(&prop::collection::vec(fitness, 2..60), |fitness| {
            runtime.block_on(client.execute(FILL, &[&fitness])).expect("filled");
            let [by_id, as_written] = [0, 1].map(|at: usize| read(&upstreams[at]));
            // All names are alike and so are the lists: only the sums could differ.
            prop_assert_eq!(by_id, as_written);
            Ok(())
        })
        .unwrap_or_else(|error| panic!("{error}"));
}
