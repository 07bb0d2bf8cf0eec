//! What the triggers write into the change log, and what they leave out.

use tokio_postgres::Client;

use super::database::fresh_database;

const SETUP: &str = "
    INSERT INTO registry.owner (handle) VALUES ('a'), ('b'), ('c');
    INSERT INTO registry.gene (id, domain, fidelity, owner_id, published)
    SELECT ('00000000-0000-0000-0000-00000000000' || n)::uuid, d, 'Native', o.id, p
    FROM (VALUES (1, 'x', 'a', true), (2, 'x', 'b', true), (3, 'y', 'a', true), (4, 'z', 'a', false))
        g (n, d, h, p) JOIN registry.owner o ON o.handle = h;
    INSERT INTO registry.api_key (key_hash, prefix, owner, name)
    SELECT decode(repeat(lpad(n::text, 2, '0'), 32), 'hex'), 'gr_' || n, 'c', 'k'
    FROM generate_series(1, 2) n;
    DELETE FROM registry.change";

/// A statement, and the change log after it: `g1` is gene 1, `k1` key 1; other scopes are literal.
const CASES: &[(&str, &[&str])] = &[
    ("UPDATE registry.gene SET name = 'n' WHERE domain = 'y'", &["g3", "domain:y"]),
    ("UPDATE registry.gene SET name = name, owner_id = owner_id", &[]),
    (
        "UPDATE registry.gene SET fitness_score = 1, reputation_score = 2, downloads = 3,
            arena_rank = 4",
        &[],
    ),
    ("UPDATE registry.gene SET domain = 'w' WHERE domain = 'y'", &["g3", "domain:w", "domain:y"]),
    ("UPDATE registry.gene SET published = false WHERE domain = 'w'", &["g3", "domain:w"]),
    ("UPDATE registry.gene SET description = 'd' WHERE NOT published", &[]),
    ("UPDATE registry.gene SET published = true WHERE domain = 'z'", &["g4", "domain:z"]),
    (
        "UPDATE registry.gene SET phenotype = '{\"input\": {}}' WHERE domain = 'z'",
        &["g4", "domain:z"],
    ),
    (
        "UPDATE registry.gene SET required_fidelity = 'Native' WHERE domain = 'z'",
        &["g4", "domain:z"],
    ),
    (
        "UPDATE registry.gene SET id = '00000000-0000-0000-0000-000000000005' WHERE domain = 'z'",
        &["g4", "g5", "domain:z"],
    ),
    (
        "UPDATE registry.owner SET handle = 'aa' WHERE handle = 'a'",
        &["g1", "g5", "domain:x", "domain:z"],
    ),
    ("UPDATE registry.owner SET handle = handle", &[]),
    ("DELETE FROM registry.gene WHERE domain = 'z'", &["g5", "domain:z"]),
    ("DELETE FROM registry.gene WHERE NOT published", &[]),
    (
        "INSERT INTO registry.gene (id, domain, fidelity, owner_id)
            SELECT '00000000-0000-0000-0000-000000000006', 'v', 'Native', min(id)
            FROM registry.owner",
        &["g6", "domain:v"],
    ),
    (
        "INSERT INTO registry.arena_evaluation (gene_id, fitness_value)
            SELECT id, 1 FROM registry.gene",
        &[],
    ),
    (
        "INSERT INTO registry.gene (domain, fidelity, owner_id) SELECT 'many', 'Native', min(id)
            FROM registry.owner, generate_series(1, 1001) n GROUP BY n",
        &["genes"],
    ),
    ("UPDATE registry.gene SET name = 'm' WHERE domain = 'many'", &["genes"]),
    ("UPDATE registry.gene SET downloads = 9", &[]),
    ("DELETE FROM registry.gene WHERE domain = 'many'", &["genes"]),
    ("UPDATE registry.api_key SET name = 'other', prefix = prefix", &[]),
    ("UPDATE registry.api_key SET revoked_at = now() WHERE prefix = 'gr_1'", &["k01"]),
    ("UPDATE registry.api_key SET rate_limit_per_minute = 9, scopes = '{}'", &["k01", "k02"]),
    ("UPDATE registry.api_key SET expires_at = 'infinity' WHERE prefix = 'gr_2'", &["k02"]),
    (
        "UPDATE registry.api_key SET key_hash = decode(repeat('07', 32), 'hex')
            WHERE prefix = 'gr_2'",
        &["k02", "k07"],
    ),
    ("INSERT INTO registry.api_key_usage SELECT key_hash, now(), 5 FROM registry.api_key", &[]),
    ("UPDATE registry.api_key_usage SET request_count = 6", &[]),
    ("UPDATE registry.owner SET handle = 'cc' WHERE handle = 'c'", &[]),
    ("DELETE FROM registry.api_key WHERE prefix = 'gr_1'", &["k01"]),
    (
        "INSERT INTO registry.api_key (key_hash, prefix, owner, name)
            VALUES (decode(repeat('08', 32), 'hex'), 'gr_8', 'cc', 'k')",
        &["k08"],
    ),
    ("TRUNCATE registry.api_key CASCADE", &["all"]),
    ("TRUNCATE registry.gene CASCADE", &["all"]),
];

#[tokio::test]
async fn the_log_contains_only_changes_of_catalogue_facts() {
    let database = fresh_database().await;
    let client = database.client().await;
    client.batch_execute(SETUP).await.expect("a small registry");
    for (sql, expected) in CASES {
        client.batch_execute(sql).await.expect(sql);
        let mut expected: Vec<String> = expected.iter().map(|scope| expand_scope(scope)).collect();
        expected.sort();
        assert_eq!(take(&client).await, expected, "{sql}");
    }
}

/// Reads the log and empties it.
async fn take(client: &Client) -> Vec<String> {
    let sql = "WITH taken AS (DELETE FROM registry.change RETURNING scope, changed_in)
        SELECT scope FROM taken WHERE changed_in < pg_current_xact_id()";
    let rows = client.query(sql, &[]).await.expect("a log");
    let mut scopes: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
    scopes.sort();
    scopes
}

fn expand_scope(scope: &str) -> String {
    match scope.split_at(1) {
        ("g", "enes") => scope.to_owned(),
        ("g", number) => format!("gene:00000000-0000-0000-0000-00000000000{number}"),
        ("k", number) => format!("key:{}", number.repeat(32)),
        _ => scope.to_owned(),
    }
}
