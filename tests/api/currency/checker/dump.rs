//! A dump of the registry, restored into a cluster whose transaction numbers are far lower.

use std::process::Command;
use std::time::Duration;

use tokio::time::Instant;

use super::world::program;
use crate::currency::restored::TRANSACTIONS;
use crate::currency::{DOMAIN, genes_of};
use crate::support::binary::ReplicaProcess;
use crate::support::need_own_servers;
use crate::support::postgres::{PostgresOptions, PostgresServer, connect, postgres_program};
use crate::support::redis::RedisServer;
use crate::support::replica::{READER, Replica, new_key_in, sample};
use crate::support::scratch_folder;
use crate::support::wait::{eventually, visible_within};

const TIMEOUT: Duration = Duration::from_secs(10);

/// Copies a database into a new one on another server, as an operator would.
async fn restore(source: &str, target: &PostgresServer) -> String {
    let admin = target.admin().await;
    let roles = "select format('create role %I login', rolname) from pg_roles
        where rolname like 'gene\\_registry%'";
    for row in connect(source).await.query(roles, &[]).await.unwrap() {
        admin.batch_execute(row.get(0)).await.unwrap();
    }
    admin.batch_execute("create database restored").await.unwrap();
    let url = target.url("restored", &target.superuser());
    let file = scratch_folder("dump").join("registry.dump");
    let mut dump = Command::new(postgres_program("pg_dump"));
    let mut restore = Command::new(postgres_program("pg_restore"));
    dump.args(["--format=custom", "--file"]).arg(&file).arg(source);
    restore.args(["--dbname", &url]).arg(&file);
    let run = move || [dump, restore].map(|mut command| command.output().unwrap());
    for output in tokio::task::spawn_blocking(run).await.unwrap() {
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    url
}

async fn is_cached(replica: &Replica, path: &str, key: &str) -> bool {
    let response = replica.get(path, Some(key)).await;
    response.status == 200 && response.header("cache-status").contains("hit")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn after_a_restored_dump_genes_are_cached_and_changes_are_visible() {
    need_own_servers!();
    let ahead = PostgresServer::start(PostgresOptions::default()).await;
    let (original, redis) = (sample(&ahead).await, RedisServer::shared().await);
    let (client, key) = (original.connect().await, new_key_in(&original.url(), |_| {}).await);
    client.batch_execute(TRANSACTIONS).await.unwrap();
    let genes = genes_of(&client, DOMAIN).await;
    client.batch_execute("update registry.gene set name = 'before the dump'").await.unwrap();
    let path = format!("/genes/{}/phenotype", genes[0]);
    let paths = [path, format!("/genes?domain={DOMAIN}"), "/genes".to_owned()];
    let fresh = PostgresServer::start(PostgresOptions::default()).await;
    let url = restore(&original.url(), &fresh).await;
    let (database_url, redis_url) = (fresh.url("restored", READER), redis.url());
    let prefix = RedisServer::new_prefix();
    let env = [
        ("DATABASE_URL", &*database_url),
        ("REDIS_URL", &*redis_url),
        ("GENE_REGISTRY__REDIS__PREFIX", &*prefix),
    ];
    let processes = [0, 1].map(|_| async { ReplicaProcess::start_program(&program(), &env).await });
    let processes = futures_util::future::join_all(processes).await;

    for process in &processes {
        for path in &paths {
            eventually(TIMEOUT, &format!("{path} is cached"), || async {
                is_cached(&process.replica, path, &key).await
            })
            .await;
        }
    }

    let client = connect(&url).await;
    for round in 0..3 {
        let name = format!("after the restore {round}");
        let sql = "update registry.gene set name = $1 where id = $2::text::uuid";
        client.execute(sql, &[&name, &genes[0]]).await.unwrap();
        let committed = Instant::now();
        for (process, path) in processes.iter().flat_map(|p| paths[..2].iter().map(move |q| (p, q)))
        {
            visible_within(committed, Duration::from_secs(2), path, || async {
                let text = process.replica.get(path, Some(&key)).await.text;
                if text.contains(&name) { Ok(()) } else { Err(text) }
            })
            .await;
        }
    }
    for (process, path) in processes.iter().flat_map(|p| paths.iter().map(move |q| (p, q))) {
        eventually(TIMEOUT, &format!("{path} is cached again"), || async {
            is_cached(&process.replica, path, &key).await
        })
        .await;
    }
}
