//! Changes of the catalogue are visible on all routes of every replica; counters and scores change
//! only when an entry expires.

use std::time::Duration;

use tokio::time::Instant;

use super::{
    DOMAIN, OTHER_DOMAIN, assert_same, assert_visible, fleet, genes_of, is_hit, paths_of,
    responses, uncached_replica,
};
use crate::support::postgres::PostgresServer;
use crate::support::redis::RedisServer;
use crate::support::wait::{eventually, visible_within};

const TIMEOUT: Duration = Duration::from_secs(10);

/// A statement on a gene (`$1`), and the paths whose responses change by it.
struct CatalogueChange {
    what: &'static str,
    sql: &'static str,
    changes: &'static [&'static str],
}

const ALL_PATHS: &[&str] = &["/genes?limit=50", "domain=search", "insights?domain=search", "{id}"];

const CHANGES: &[CatalogueChange] = &[
    CatalogueChange {
        what: "an edit",
        sql: "update registry.gene set name = 'edited', description = 'edited' where id = {id}",
        changes: ALL_PATHS,
    },
    CatalogueChange {
        what: "another phenotype",
        sql: "update registry.gene set phenotype = '{\"input\": {\"title\": \"new\"}}'
            where id = {id}",
        changes: &["{id}"],
    },
    CatalogueChange {
        what: "an end of publication",
        sql: "update registry.gene set published = false where id = {id}",
        changes: ALL_PATHS,
    },
    CatalogueChange {
        what: "a publication",
        sql: "update registry.gene set published = true where id = {id}",
        changes: ALL_PATHS,
    },
    CatalogueChange {
        what: "a move to another domain",
        sql: "update registry.gene set domain = 'code.testing' where id = {id}",
        changes: &["/genes?limit=50", "domain=search", "domain=code.testing", "{id}"],
    },
    CatalogueChange {
        what: "a move back",
        sql: "update registry.gene set domain = 'search' where id = {id}",
        changes: &["/genes?limit=50", "domain=search", "domain=code.testing", "{id}"],
    },
    CatalogueChange {
        what: "an owner's new name",
        sql: "update registry.owner set handle = handle || '-renamed'
            where id = (select owner_id from registry.gene where id = {id})",
        changes: &["/genes?limit=50", "/genes?domain=search"],
    },
    CatalogueChange {
        what: "a statement over more rows than are listed",
        sql: "insert into registry.gene (domain, fidelity, owner_id, fitness_score, name)
            select case n % 2 when 0 then 'search' else 'code.testing' end, 'Native',
                (select min(id) from registry.owner), 0.001, 'one of many'
            from generate_series(1, 1001) n",
        changes: &["/genes?limit=50", "/genes?domain=search", "insights?domain=code.testing"],
    },
    CatalogueChange {
        what: "a deletion",
        sql: "delete from registry.gene where id = {id}",
        changes: ALL_PATHS,
    },
];

#[tokio::test(flavor = "multi_thread")]
async fn every_replica_shows_each_change_within_two_seconds() {
    let fleet = fleet(PostgresServer::shared().await, RedisServer::shared().await).await;
    let (client, key) = (fleet.database.connect().await, fleet.database.new_key(1_000_000).await);
    let genes = [genes_of(&client, DOMAIN).await, genes_of(&client, OTHER_DOMAIN).await].concat();
    let (paths, uncached_replica) = (paths_of(&genes), uncached_replica(&fleet).await);
    for CatalogueChange { what, sql, changes } in CHANGES {
        let before = responses(&uncached_replica, &key, &paths).await;
        for replica in &fleet.replicas {
            assert_same(&responses(replica, &key, &paths).await, &before, &paths);
        }

        client.batch_execute(&sql.replace("{id}", &format!("'{}'", genes[0]))).await.unwrap();
        let committed = Instant::now();
        let expected = responses(&uncached_replica, &key, &paths).await;

        assert_visible(&fleet.replicas, &key, &paths, &expected, committed, what).await;
        for part in *changes {
            let part = part.replace("{id}", &genes[0]);
            let of_part = |at: &usize| paths[*at].contains(&part);
            let changed = (0..paths.len()).filter(of_part).any(|at| expected[at] != before[at]);
            assert!(changed, "{what} changes {part}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unpublished_gene_is_404_and_a_republished_one_200() {
    let fleet = fleet(PostgresServer::shared().await, RedisServer::shared().await).await;
    let (client, key) = (fleet.database.connect().await, fleet.database.new_key(1_000_000).await);
    let id = genes_of(&client, DOMAIN).await.swap_remove(0);
    let path = format!("/genes/{id}/phenotype");
    for replica in &fleet.replicas {
        assert_eq!(replica.get(&path, Some(&key)).await.status, 200);
    }
    for (published, status) in [(false, 404), (true, 200), (false, 404), (true, 200)] {
        let sql = "update registry.gene set published = $1 where id = $2::text::uuid";
        client.execute(sql, &[&published, &id]).await.unwrap();
        let committed = Instant::now();
        for replica in &fleet.replicas {
            visible_within(committed, super::VISIBLE_WITHIN, "its status is visible", || async {
                let found = replica.get(&path, Some(&key)).await.status;
                if found == status { Ok(()) } else { Err(found.to_string()) }
            })
            .await;
        }
        for replica in &fleet.replicas {
            assert_eq!(replica.get(&path, Some(&key)).await.status, status);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_of_counters_scores_and_ranks_outdate_no_entry() {
    let fleet = fleet(PostgresServer::shared().await, RedisServer::shared().await).await;
    let (client, key) = (fleet.database.connect().await, fleet.database.new_key(1_000_000).await);
    let id = genes_of(&client, DOMAIN).await.swap_remove(0);
    let other = genes_of(&client, OTHER_DOMAIN).await.swap_remove(0);
    let paths: Vec<String> = [
        format!("/genes?domain={DOMAIN}"),
        format!("/arena/insights?domain={DOMAIN}"),
        format!("/genes/{id}/phenotype"),
    ]
    .into();
    let sign = format!("/genes/{other}/phenotype");
    let before = responses(&fleet.replicas[0], &key, &paths).await;
    for replica in &fleet.replicas {
        assert_eq!(responses(replica, &key, &paths).await, before);
    }

    let sql = format!(
        "update registry.gene set fitness_score = fitness_score + 1, downloads = downloads + 1,
            reputation_score = 5, arena_rank = 9 where domain = '{DOMAIN}';
         insert into registry.arena_evaluation (gene_id, fitness_value) values ('{id}', 7);
         update registry.gene set name = 'the sign' where id = '{other}'"
    );
    client.batch_execute(&sql).await.unwrap();

    for replica in &fleet.replicas {
        eventually(TIMEOUT, "the log was read", || async {
            replica.get(&sign, Some(&key)).await.text.contains("the sign")
        })
        .await;
        for (path, before) in paths.iter().zip(&before) {
            let response = replica.get(path, Some(&key)).await;
            assert!(is_hit(&response), "{path}: {response:?}");
            assert_eq!(response.text, before.1, "{path}");
        }
    }
    let uncached_replica = uncached_replica(&fleet).await;
    let now = responses(&uncached_replica, &key, &paths).await;
    assert!(now.iter().zip(&before).all(|(now, before)| now != before), "{now:?}");
}
