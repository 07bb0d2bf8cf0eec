//! Replicas that are killed, started repeatedly, or of another version.

use std::convert::Infallible;
use std::process::Command;

use super::{TIMEOUT, Watch, instance};
use crate::support::binary::{PROGRAM, ReplicaProcess};
use crate::support::postgres::PostgresServer;
use crate::support::replica::{READER, sample};
use crate::support::wait::eventually;
use crate::support::{free_port, scratch_folder};

pub(super) const ALERTS: [&str; 4] = [
    "GeneRegistryNoReplicaReady",
    "GeneRegistryReplicaDown",
    "GeneRegistryRestarts",
    "GeneRegistryVersionsDiffer",
];

pub(super) async fn fire() {
    let database = sample(PostgresServer::shared().await).await;
    let (url, bind) = (database.url_as(READER), format!("127.0.0.1:{}", free_port()));
    let env = [("DATABASE_URL", url.as_str()), ("GENE_REGISTRY__OPS__BIND", &bind)];
    let first = ReplicaProcess::start(&env[..1]).await;
    let second = ReplicaProcess::start(&env).await;
    let watch = Watch::start(&ALERTS, &[&first.replica, &second.replica]).await;
    assert_eq!(instance(&second.replica), bind);

    drop(second);
    watch.fires_for("GeneRegistryReplicaDown", &bind).await;

    let second = ReplicaProcess::start_program(&program_of_another_version(), &env).await;
    watch.fires("GeneRegistryVersionsDiffer").await;
    drop(second);

    tokio::select! {
        never = restart_for_ever(&watch, &env, &bind) => match never {},
        () = watch.fires_for("GeneRegistryRestarts", &bind) => {}
    }

    first.kill();
    watch.fires("GeneRegistryNoReplicaReady").await;
    watch.assert_complete();
}

/// Starts and kills a replica repeatedly. Each is scraped once at least.
async fn restart_for_ever(watch: &Watch, env: &[(&str, &str)], instance: &str) -> Infallible {
    let scraped = format!("process_start_time_seconds{{instance=\"{instance}\"}}");
    loop {
        let process = ReplicaProcess::start(env).await;
        let started = process.replica.metric("process_start_time_seconds").await;
        eventually(TIMEOUT, "the new replica is scraped", async || {
            watch.prometheus.value(&scraped).await == started
        })
        .await;
    }
}

/// A copy of the program in which each text that is the package's version is another one, which
/// takes less time than a second build.
fn program_of_another_version() -> String {
    let version = env!("CARGO_PKG_VERSION");
    let other: String =
        version.chars().map(|one| if one.is_ascii_digit() { '9' } else { one }).collect();
    assert_ne!(version, other);
    let copy = scratch_folder("version").join("gene-registry");
    std::fs::copy(PROGRAM, &copy).unwrap();
    let replace = format!("s/{}/{other}/g", version.replace('.', r"\."));
    let mut sed = Command::new("sed");
    sed.env("LC_ALL", "C").args(["-i", &replace]).arg(&copy);
    assert!(sed.status().unwrap().success());
    let said = Command::new(&copy).arg("--version").output().unwrap();
    assert!(String::from_utf8_lossy(&said.stdout).contains(&other), "{said:?}");
    copy.to_str().unwrap().to_owned()
}
