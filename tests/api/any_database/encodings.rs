//! Databases of other encodings than UTF-8.

use serde_json::{Value, json};

use super::{ExistingRegistry, with_users};
use crate::support::control::{ControlClient, KEYS_ROLE};
use crate::support::postgres::{PostgresServer, connect};
use crate::support::replica::{READER, Replica, config, long_timeouts};

const JAPANESE: &str = "%E6%97%A5%E6%9C%AC";

#[tokio::test(flavor = "multi_thread")]
async fn a_parameter_that_the_encoding_cannot_hold_finds_nothing() {
    let database = PostgresServer::shared().await.create_database_in("LATIN1").await;
    let rows = "
        insert into registry_read.gene (id, name, domain, fidelity) values
            (uuid(lpad('1', 32, '0')), 'naïve', 'café', 'Native'),
            (uuid(lpad('2', 32, '0')), 'b', 'd', 'Native');
        insert into registry_read.api_key (prefix, owner, name) values ('gr_aaaaaaaa', 'andré', 'café')";
    let users = ["andré", "日本"];
    let registry = ExistingRegistry::start(&database, "text", rows, &users).await;
    let get = async |path: &str| registry.replica.get(path, Some(&registry.key)).await;

    assert_eq!(registry.search("?domain=caf%C3%A9").await, ("1".to_owned(), 1));
    for filter in ["", "&fidelity=Native", "&offset=20"] {
        let query = format!("?domain={JAPANESE}{filter}");
        assert_eq!(registry.search(&query).await, (String::new(), 0), "{query}");
    }
    let unknown = get(&format!("/arena/insights?domain={JAPANESE}")).await;
    unknown.assert_refused(404, "NOT_FOUND");
    assert_eq!(get("/arena/insights?domain=caf%C3%A9").await.status, 200);
    assert_eq!(registry.search("").await, ("12".to_owned(), 2));

    let [own, others] = [&registry.users[0], &registry.users[1]];
    assert_eq!(own.list().await[0]["name"], "café");
    assert_eq!(others.list().await, [] as [Value; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_the_encoding_cannot_hold_is_refused() {
    let database = PostgresServer::shared().await.create_database_in("LATIN1").await;
    gene_registry::default_schema::migrate::migrate(&mut connect(&database.url()).await)
        .await
        .unwrap();
    let mut config = config(&database.url_as(READER), None);
    long_timeouts(&mut config);
    config.control.database_url = Some(database.url_as(KEYS_ROLE).into());
    let tokens = with_users(&mut config, &["alice"]);
    let replica = Replica::start(&config).await;
    let alice = ControlClient::new(&replica, Some(&tokens[0]));

    let response = alice.post("/api-keys", &json!({"name": "日本"})).await;
    assert_eq!(response.status, 400, "{response:?}");
    assert_eq!(response.json()["code"], "MISSING_PARAM", "{response:?}");
    let key = alice.post("/api-keys", &json!({"name": "café"})).await;
    assert_eq!(key.status, 201, "{key:?}");
    assert_eq!(alice.list().await[0]["name"], "café");
}

/// In a database without an encoding, the byte e9 alone is no UTF-8.
const BYTES: &str = r#"
    set client_encoding = 'SQL_ASCII';
    insert into registry_read.gene (id, name, domain, fidelity, owner, description, phenotype) values
        (uuid(lpad('1', 32, '0')), E'caf\xe9', E'd\xe9', 'Native', E'o\xe9', E'\xe9\xff', E'{"input": {"\xe9": 1}}'),
        (uuid(lpad('2', 32, '0')), E'\xc3\xa9', E'\xc3\xa9', 'Native', 'o', '', '{}');
    insert into registry_read.api_key (prefix, owner, name, scopes)
        values ('gr_aaaaaaaa', 'alice', E'\xe9', array[E'\xe9']);
    insert into registry_read.change (scope) values (E'domain:\xe9'), ('gene:00000000-0000-0000-0000-000000000001');"#;

#[tokio::test(flavor = "multi_thread")]
async fn bytes_that_are_no_text_are_shown_as_replacement_characters() {
    let database = PostgresServer::shared().await.create_database_in("SQL_ASCII").await;
    let registry = ExistingRegistry::start(&database, "text", BYTES, &["alice"]).await;
    let get = async |path: &str| registry.replica.get(path, Some(&registry.key)).await;

    let page = get("/genes").await;
    assert_eq!(page.status, 200, "{page:?}");
    let page = page.json();
    let [first, second] = [&page["data"][0], &page["data"][1]];
    assert_eq!((&first["name"], &first["domain"]), (&"caf\u{fffd}".into(), &"d\u{fffd}".into()));
    assert_eq!(first["description"], "\u{fffd}\u{fffd}");
    assert_eq!((&second["name"], &second["domain"]), (&"é".into(), &"é".into()));
    assert_eq!(registry.search("?domain=%C3%A9").await, ("2".to_owned(), 1));
    assert_eq!(registry.search(&format!("?domain={JAPANESE}")).await.1, 0);
    let phenotype = get("/genes/00000000-0000-0000-0000-000000000001/phenotype").await;
    assert_eq!(phenotype.json()["phenotype"]["input"], json!({"\u{fffd}": 1}));
    assert_eq!(registry.users[0].list().await[0]["name"], "\u{fffd}");
    let polls = |result| format!("gene_registry_change_log_polls_total{{result=\"{result}\"}}");
    assert_eq!(registry.replica.metric(&polls("failed")).await, Some(0.0));
    assert!(registry.replica.metric(&polls("ok")).await > Some(0.0));
}
