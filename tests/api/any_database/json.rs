//! Phenotypes with any JSON number, and nested as deep as the database allows.

use super::ExistingRegistry;
use crate::support::postgres::PostgresServer;
use crate::support::replica::{READER, Replica, config, long_timeouts, sample};

const DIGITS: &str = "123456789012345678901234567890";

/// The schema of an input that is nested `depth` deep.
fn nested(depth: usize) -> String {
    format!("{}1{}", "{\"a\":".repeat(depth), "}".repeat(depth))
}

#[tokio::test(flavor = "multi_thread")]
async fn numbers_and_depth_of_a_phenotype_are_handed_on_unchanged() {
    let database = sample(PostgresServer::shared().await).await;
    let client = database.connect().await;
    let key = database.new_key(1_000_000).await;
    let mut config = config(&database.url_as(READER), None);
    long_timeouts(&mut config);
    let replica = Replica::start(&config).await;
    let ids = client.query("select id::text from registry_read.gene", &[]).await.unwrap();
    let large = format!("1{}", "0".repeat(400));

    for (row, (stored, shown)) in ids.iter().zip([
        (r#"{"a": 1e400}"#.to_owned(), format!("{{\"a\":{large}}}")),
        (format!("{{\"a\": -{DIGITS}}}"), format!("{{\"a\":-{DIGITS}}}")),
        (
            r#"{"a": [0.10, 1.0, 1e-400]}"#.to_owned(),
            format!("{{\"a\":[0.10,1.0,0.{}1]}}", "0".repeat(399)),
        ),
        (nested(130), nested(130)),
        (nested(1_000), nested(1_000)),
    ]) {
        let id: &str = row.get(0);
        let stored = format!("{{\"input\": {stored}, \"outputSchema\": {{\"b\": {DIGITS}}}}}");
        let update = format!("update registry.gene set phenotype = '{stored}' where id = '{id}'");
        client.batch_execute(&update).await.unwrap();

        let response = replica.get(&format!("/genes/{id}/phenotype"), Some(&key)).await;

        assert_eq!(response.status, 200, "{response:?}");
        let expected =
            format!("\"phenotype\":{{\"input\":{shown},\"output\":{{\"b\":{DIGITS}}}}},");
        assert!(response.text.contains(&expected), "{response:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn json_of_an_existing_registry_is_handed_on_as_it_is_written() {
    let database = PostgresServer::shared().await.create_database().await;
    // Numbers beyond those of jsonb, which also has no NUL.
    let rows = r#"insert into registry_read.gene (id, fidelity, phenotype) values
        (uuid(lpad('1', 32, '0')), 'Native',
            '{ "input": { "a" : [1e999999, -0, 1E+2] , "b\"\\ c" : "\u0000 " }, "output": [1] }'),
        (uuid(lpad('2', 32, '0')), 'Native', '[1e400]'),
        (uuid(lpad('3', 32, '0')), 'Native', '{"input": {}, "inputSchema": {"a": 1}, "input": {"b": 2}}')"#;
    let registry = ExistingRegistry::start(&database, "text", rows, &[]).await;
    let empty = r#"{"type":"object","properties":{}}"#;

    for (digit, input) in [
        ('1', r#"{"a":[1e999999,-0,1E+2],"b\"\\ c":"\u0000 "}"#),
        ('2', empty),
        ('3', r#"{"b":2}"#),
    ] {
        let path = format!("/genes/00000000-0000-0000-0000-00000000000{digit}/phenotype");
        let response = registry.replica.get(&path, Some(&registry.key)).await;
        assert_eq!(response.status, 200, "{response:?}");
        let expected = format!("\"phenotype\":{{\"input\":{input},\"output\":{empty}}},");
        assert!(response.text.contains(&expected), "{response:?}");
    }
}
