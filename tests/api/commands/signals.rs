//! SIGINT and SIGTERM end every command, also as the first process of a container, for which the
//! kernel ignores signals without a handler. Nothing of it goes on in the database.

use std::time::Duration;

use super::{TIMEOUT, without_configuration};
use crate::support::database::Database;
use crate::support::pipes::full_pipe;
use crate::support::postgres::PostgresServer;
use crate::support::process::{Launch, Process, Signal, send, tree};
use crate::support::replica::migrated;
use crate::support::scratch_folder;
use crate::support::wait::{eventually, until};

/// Long enough for a loaded machine, and less than any command here would take by itself.
const END_TIMEOUT: Duration = Duration::from_secs(15);

/// A command as process 1 of a namespace of its own.
struct InContainer {
    /// The program that has created the namespace and waits for the command.
    outside: Process,
    pid: u32,
}

impl InContainer {
    async fn start(launch: Launch) -> Self {
        let outside = launch.start();
        let pid = until(TIMEOUT, "the command is a process", || async {
            assert!(outside.is_running(), "{}", outside.report());
            tree(outside.pid()).into_iter().find(|pid| is_program(*pid))
        })
        .await;
        Self { outside, pid }
    }

    /// Sends a signal and checks that the command ends by it soon.
    async fn ends_by(&self, signal: Signal) {
        send(signal, &[self.pid]);
        let status = self.outside.wait_exit(END_TIMEOUT).await;
        let expected = if signal == Signal::Int { 130 } else { 143 };
        assert_eq!(status.code(), Some(expected), "{}", self.outside.report());
    }
}

/// Whether the process has a thread that waits for signals: before, it would lose them.
fn is_program(pid: u32) -> bool {
    let is_waiting = |entry: std::fs::DirEntry| {
        std::fs::read_to_string(entry.path().join("comm")).is_ok_and(|name| name == "signals\n")
    };
    let threads = std::fs::read_dir(format!("/proc/{pid}/task"));
    threads.is_ok_and(|threads| threads.flatten().any(is_waiting))
}

/// `gene-registry` as process 1, with `input` as its standard input.
fn in_container(args: &[&str], database: &Database<'_>, input: &str) -> Launch {
    let script = r#"input=$1; shift
        exec unshare --user --map-root-user --pid --fork --kill-child "$@" <"$input""#;
    let program = env!("CARGO_BIN_EXE_gene-registry");
    let launch = Launch::new("container", "sh").args(["-c", script, "sh", input, program]);
    without_configuration(launch.args(args)).env("DATABASE_URL", database.url())
}

/// The number of statements that other sessions of this database execute.
async fn active_statements(database: &Database<'_>, condition: &str) -> i64 {
    let sql = format!(
        "select count(*) from pg_stat_activity where datname = current_database()
            and pid <> pg_backend_pid() and state = 'active' and {condition}"
    );
    database.connect().await.query_one(&sql, &[]).await.unwrap().get(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_migration_that_waits_for_its_lock_ends_and_waits_no_longer() {
    let database = migrated(PostgresServer::shared().await).await;
    let holder = database.connect().await;
    let lock = "begin; lock table registry.refinery_schema_history in share row exclusive mode";
    holder.batch_execute(lock).await.unwrap();
    for signal in [Signal::Term, Signal::Int] {
        let migrate = InContainer::start(in_container(&["migrate"], &database, "/dev/null")).await;
        let waits = "wait_event_type = 'Lock'";
        eventually(TIMEOUT, "it waits for its lock", || async {
            active_statements(&database, waits).await == 1
        })
        .await;
        migrate.ends_by(signal).await;
        eventually(END_TIMEOUT, "nobody waits for the lock", || async {
            active_statements(&database, waits).await == 0
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_load_ends_and_leaves_the_registry_empty() {
    let database = migrated(PostgresServer::shared().await).await;
    let args = ["seed", "--genes", "2000000"];
    let seed = InContainer::start(in_container(&args, &database, "/dev/null")).await;
    eventually(TIMEOUT, "it loads", || async {
        active_statements(&database, "query like 'COPY%'").await == 1
    })
    .await;
    seed.ends_by(Signal::Term).await;
    eventually(END_TIMEOUT, "the session has ended", || async {
        active_statements(&database, "true").await == 0
    })
    .await;
    let sql = "select (select count(*) from registry.gene) + count(*) from registry.api_key";
    let left: i64 = database.connect().await.query_one(sql, &[]).await.unwrap().get(0);
    assert_eq!(left, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_that_wait_for_their_input_or_output_end() {
    let database = migrated(PostgresServer::shared().await).await;
    let input = scratch_folder("input").join("fifo");
    assert!(std::process::Command::new("mkfifo").arg(&input).status().unwrap().success());
    let mut open = std::fs::File::options();
    // For reading too: then it blocks nobody, and nobody finds the end of the input.
    let _writer = open.read(true).write(true).open(&input).unwrap();
    let input = input.to_str().unwrap();
    for args in [["seed", "--key-file", "/dev/stdin"], ["maintain", "--config", "/dev/stdin"]] {
        InContainer::start(in_container(&args, &database, input)).await.ends_by(Signal::Int).await;
    }
    for args in [&["openapi"][..], &["config", "print"], &["token", "new", "--user", "ana"]] {
        let (_reader, full) = full_pipe();
        let launch = in_container(args, &database, "/dev/null").stdout_to(full);
        InContainer::start(launch).await.ends_by(Signal::Term).await;
    }
}
