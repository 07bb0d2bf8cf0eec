//! Changes of the catalogue are visible on all routes of every replica; counters and scores change
//! only when an entry expires.

use std::time::Duration;

use tokio::time::Instant;

use super::{
    DOMAIN, OTHER, answers, assert_same, assert_seen, fleet, genes_of, is_hit, paths_of, truthful,
};
use crate::support::postgres::PostgresServer;
use crate::support::redis::RedisServer;
use crate::support::wait::{eventually, seen};

const SOON: Duration = Duration::from_secs(10);

/// A statement on a gene (`$1`), and the paths whose responses change by it.
struct Step {
    what: &'static str,
    sql: &'static str,
    changes: &'static [&'static str],
}

const EVERYWHERE: &[&str] = &["/genes?limit=50", "domain=search", "insights?domain=search", "{id}"];

const STEPS: &[Step] = &[
    Step {
        what: "an edit",
        sql: "update registry.gene set name = 'edited', description = 'edited' where id = {id}",
        changes: EVERYWHERE,
    },
    Step {
        what: "another phenotype",
        sql: "update registry.gene set phenotype = '{\"input\": {\"title\": \"new\"}}'
            where id = {id}",
        changes: &["{id}"],
    },
    Step {
        what: "an end of publication",
        sql: "update registry.gene set published = false where id = {id}",
        changes: EVERYWHERE,
    },
    Step {
        what: "a publication",
        sql: "update registry.gene set published = true where id = {id}",
        changes: EVERYWHERE,
    },
    Step {
        what: "a move to another domain",
        sql: "update registry.gene set domain = 'code.testing' where id = {id}",
        changes: &["/genes?limit=50", "domain=search", "domain=code.testing", "{id}"],
    },
    Step {
        what: "a move back",
        sql: "update registry.gene set domain = 'search' where id = {id}",
        changes: &["/genes?limit=50", "domain=search", "domain=code.testing", "{id}"],
    },
    Step {
        what: "an owner's new name",
        sql: "update registry.owner set handle = handle || '-renamed'
            where id = (select owner_id from registry.gene where id = {id})",
        changes: &["/genes?limit=50", "/genes?domain=search"],
    },
    Step {
        what: "a statement over more rows than are listed",
        sql: "insert into registry.gene (domain, fidelity, owner_id, fitness_score, name)
            select case n % 2 when 0 then 'search' else 'code.testing' end, 'Native',
                (select min(id) from registry.owner), 0.001, 'one of many'
            from generate_series(1, 1001) n",
        changes: &["/genes?limit=50", "/genes?domain=search", "insights?domain=code.testing"],
    },
    Step {
        what: "a deletion",
        sql: "delete from registry.gene where id = {id}",
        changes: EVERYWHERE,
    },
];

#[tokio::test(flavor = "multi_thread")]
async fn every_replica_shows_each_change_within_two_seconds() {
    let fleet = fleet(PostgresServer::shared().await, RedisServer::shared().await).await;
    let (client, key) = (fleet.database.connect().await, fleet.database.new_key(1_000_000).await);
    let genes = [genes_of(&client, DOMAIN).await, genes_of(&client, OTHER).await].concat();
    let (paths, truthful) = (paths_of(&genes), truthful(&fleet).await);
    for Step { what, sql, changes } in STEPS {
        let before = answers(&truthful, &key, &paths).await;
        for replica in &fleet.replicas {
            assert_same(&answers(replica, &key, &paths).await, &before, &paths);
        }

        client.batch_execute(&sql.replace("{id}", &format!("'{}'", genes[0]))).await.unwrap();
        let committed = Instant::now();
        let truth = answers(&truthful, &key, &paths).await;

        assert_seen(&fleet.replicas, &key, &paths, &truth, committed, what).await;
        for part in *changes {
            let part = part.replace("{id}", &genes[0]);
            let of_part = |at: &usize| paths[*at].contains(&part);
            let changed = (0..paths.len()).filter(of_part).any(|at| truth[at] != before[at]);
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
            seen(committed, super::SEEN, "its status follows", || async {
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
    let other = genes_of(&client, OTHER).await.swap_remove(0);
    let paths: Vec<String> = [
        format!("/genes?domain={DOMAIN}"),
        format!("/arena/insights?domain={DOMAIN}"),
        format!("/genes/{id}/phenotype"),
    ]
    .into();
    let sign = format!("/genes/{other}/phenotype");
    let before = answers(&fleet.replicas[0], &key, &paths).await;
    for replica in &fleet.replicas {
        assert_eq!(answers(replica, &key, &paths).await, before);
    }

    let sql = format!(
        "update registry.gene set fitness_score = fitness_score + 1, downloads = downloads + 1,
            reputation_score = 5, arena_rank = 9 where domain = '{DOMAIN}';
         insert into registry.arena_evaluation (gene_id, fitness_value) values ('{id}', 7);
         update registry.gene set name = 'the sign' where id = '{other}'"
    );
    client.batch_execute(&sql).await.unwrap();

    for replica in &fleet.replicas {
        eventually(SOON, "the log was read", || async {
            replica.get(&sign, Some(&key)).await.text.contains("the sign")
        })
        .await;
        for (path, before) in paths.iter().zip(&before) {
            let answer = replica.get(path, Some(&key)).await;
            assert!(is_hit(&answer), "{path}: {answer:?}");
            assert_eq!(answer.text, before.1, "{path}");
        }
    }
    let truthful = truthful(&fleet).await;
    let now = answers(&truthful, &key, &paths).await;
    assert!(now.iter().zip(&before).all(|(now, before)| now != before), "{now:?}");
}
