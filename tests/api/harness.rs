//! The test support itself, on which the other tests rely.

use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::support::need_own_servers;
use crate::support::pgbouncer::PgBouncer;
use crate::support::postgres::{PostgresOptions, PostgresServer, SUPERUSER, connect};
use crate::support::process::{Launch, Signal, is_alive, tree};
use crate::support::redis::RedisServer;
use crate::support::wait::eventually;

const TIMEOUT: Duration = Duration::from_secs(10);
/// Long enough for a response, short enough to wait for none.
const SILENCE: Duration = Duration::from_millis(300);

async fn number(client: &tokio_postgres::Client, sql: &str) -> i64 {
    client.query_one(sql, &[]).await.unwrap().get(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn databases_are_separate_and_copies_of_their_template() {
    let server = PostgresServer::shared().await;
    let fill = |url: String| async move {
        let sql = "create table filled (id bigint); insert into filled values (7)";
        connect(&url).await.batch_execute(sql).await.unwrap();
    };
    let never = |_: String| async { unreachable!("a template is filled once") };
    let first = server.create_database_like("harness", fill).await;
    let second = server.create_database_like("harness", never).await;
    let empty = server.create_database().await;

    first.connect().await.batch_execute("update filled set id = 8").await.unwrap();

    assert_ne!(first.name(), second.name());
    assert_eq!(number(&first.connect().await, "select id from filled").await, 8);
    assert_eq!(number(&second.connect().await, "select id from filled").await, 7);
    let tables = "select count(*) from pg_tables where schemaname = 'public'";
    assert_eq!(number(&empty.connect().await, tables).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_database_is_gone_from_the_shared_server() {
    let server = PostgresServer::shared().await;
    let database = server.create_database().await;
    let _open = database.connect().await;
    let name = database.name().to_owned();

    drop(database);

    let sql = format!("select count(*) from pg_database where datname = '{name}'");
    assert_eq!(number(&server.admin().await, &sql).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn another_role_sees_only_what_it_may() {
    let server = PostgresServer::shared().await;
    let database = server.create_database().await;
    let role = database.name().replace("test", "role");
    let sql = format!("create table secret (id int); create role {role} login");
    database.connect().await.batch_execute(&sql).await.unwrap();

    let client = connect(&database.url_as(&role)).await;

    let row = client.query_one("select current_user::text", &[]).await.unwrap();
    assert_eq!(row.get::<_, String>(0), role);
    assert!(client.query("select * from secret", &[]).await.is_err());
    drop(client);
    drop(database);
    server.admin().await.batch_execute(&format!("drop role {role}")).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_postgres_hangs_and_goes_on() {
    need_own_servers!();
    let server = PostgresServer::start(PostgresOptions::default()).await;
    let client = server.admin().await;

    server.pause();
    let while_paused = timeout(SILENCE, client.simple_query("select 1")).await;
    let url = server.url("postgres", SUPERUSER);
    let new_connection = timeout(SILENCE, connect(&url)).await;
    server.resume();

    assert!(while_paused.is_err() && new_connection.is_err());
    assert_eq!(number(&client, "select 1::bigint").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restarted_postgres_keeps_its_port_and_data() {
    need_own_servers!();
    let options = PostgresOptions { max_connections: 17, ..Default::default() };
    let server = PostgresServer::start(options).await;
    let addr = server.addr();
    let database = server.create_database().await;
    let client = database.connect().await;
    client.batch_execute("create table kept (id int)").await.unwrap();

    server.stop_immediate().await;
    assert!(TcpStream::connect(&addr).await.is_err());
    assert!(client.simple_query("select 1").await.is_err());
    server.restart().await;

    assert_eq!(server.addr(), addr);
    let client = database.connect().await;
    assert_eq!(number(&client, "select count(*) from kept").await, 0);
    let connections = "select current_setting('max_connections')::bigint";
    assert_eq!(number(&client, connections).await, 17);
    assert!(server.log().contains("not properly shut down"), "{}", server.log());
}

#[tokio::test(flavor = "multi_thread")]
async fn terminated_backends_are_gone() {
    need_own_servers!();
    let server = PostgresServer::start(PostgresOptions::default()).await;
    let database = server.create_database().await;
    let clients = [database.connect().await, database.connect().await];

    assert_eq!(server.terminate_backends(database.name()).await, 2);

    eventually(TIMEOUT, "both clients see it", || async {
        clients.iter().all(tokio_postgres::Client::is_closed)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn postgres_requires_passwords_if_configured() {
    need_own_servers!();
    let hba = vec!["host all picky 127.0.0.1/32 scram-sha-256".to_owned()];
    let server = PostgresServer::start(PostgresOptions { hba, ..Default::default() }).await;
    let sql = "create role picky login password 'p@:/#%?='";
    server.admin().await.batch_execute(sql).await.unwrap();
    let url = |user: &str| server.url("postgres", user);

    assert!(tokio_postgres::connect(&url("picky"), tokio_postgres::NoTls).await.is_err());
    connect(&url("picky:p%40%3A%2F%23%25%3F%3D")).await;
    connect(&server.socket_url("postgres", SUPERUSER)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn redis_keys_are_found_by_prefix_and_commands_are_seen() {
    let server = RedisServer::shared().await;
    let prefix = RedisServer::new_prefix();
    let monitor = server.monitor().await;

    for number in 0..3 {
        let key = format!("{prefix}:{number}");
        let () = server.command(&["SET", &key, "value", "EX", "60"]).await;
    }

    let expected: Vec<String> = (0..3).map(|number| format!("{prefix}:{number}")).collect();
    assert_eq!(server.keys(&prefix).await, expected);
    eventually(TIMEOUT, "the commands are seen", || async {
        monitor.lines_with(&prefix).iter().filter(|line| line.contains("SET")).count() == 3
    })
    .await;
    assert!(monitor.lines().len() >= 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn redis_can_hang_die_and_come_back_on_its_port() {
    need_own_servers!();
    let server = RedisServer::start(&["--maxmemory", "20mb"]).await;
    let url = server.url();
    assert_eq!(url, format!("redis://{}/", server.addr()));
    let () = server.command(&["SET", "lost", "1"]).await;

    server.pause();
    assert!(timeout(SILENCE, server.connect()).await.is_err());
    server.resume();
    assert_eq!(server.command::<i64>(&["EXISTS", "lost"]).await, 1);
    server.kill().await;
    assert!(server.try_command::<String>(&["PING"]).await.is_err());
    server.restart().await;

    assert_eq!(server.url(), url);
    assert_eq!(server.command::<i64>(&["EXISTS", "lost"]).await, 0);
    let (_, limit): (String, u64) = server.command(&["CONFIG", "GET", "maxmemory"]).await;
    assert_eq!(limit, 20 << 20);
    assert!(server.socket_url().ends_with("/redis.sock"));
    assert!(server.folder().join("redis.sock").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn pgbouncer_in_transaction_mode_survives_a_reload() {
    need_own_servers!();
    let server = PostgresServer::start(PostgresOptions::default()).await;
    let bouncer = PgBouncer::start(&server, &["server_idle_timeout = 1"]).await;
    let client = connect(&bouncer.url("postgres", SUPERUSER)).await;

    let before = client.simple_query("select 1").await;
    bouncer.reload().await;
    let after = client.simple_query("select 1").await;

    assert!(before.is_ok() && after.is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn dropping_a_process_ends_its_descendants() {
    let script = "echo started; echo warned >&2; sleep 600 & sleep 600 & wait";
    let process = Launch::new("parent", "sh").args(["-c", script]).start();
    eventually(TIMEOUT, "two children run", || async { tree(process.pid()).len() == 3 }).await;
    let all = tree(process.pid());
    assert_eq!((process.stdout().as_str(), process.stderr().as_str()), ("started\n", "warned\n"));
    process.signal(Signal::Stop);

    drop(process);

    eventually(TIMEOUT, "all have ended", || async { !all.iter().any(|&pid| is_alive(pid)) }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn signals_and_exits_are_seen() {
    // As a builtin: a shell may miss a signal that arrives while it starts a program.
    let script = "trap 'kill $!; exit 3' TERM; trap 'kill $!; exit 4' INT; \
                  sleep 1000 & echo \"$WORD${GONE-}\"; wait";
    for (signal, code) in [(Signal::Term, 3), (Signal::Int, 4)] {
        let process = Launch::new("trap", "sh")
            .args(["-c", script])
            .env("WORD", "ready")
            .env_remove("GONE")
            .start();
        eventually(TIMEOUT, "the shell is ready", || async { process.stdout() == "ready\n" }).await;
        assert!(process.exited_within(Duration::from_millis(20)).await.is_none());

        process.signal(signal);

        assert_eq!(process.wait_exit(TIMEOUT).await.code(), Some(code));
        assert!(!process.is_running());
    }
}

#[tokio::test(flavor = "multi_thread")]
#[should_panic(expected = "not within 20ms: never")]
async fn waiting_ends_at_its_bound() {
    eventually(Duration::from_millis(20), "never", || async { false }).await;
}

#[tokio::test(flavor = "multi_thread")]
#[should_panic(expected = "not within 20ms: an attempt that hangs")]
async fn waiting_ends_in_the_middle_of_an_attempt() {
    eventually(Duration::from_millis(20), "an attempt that hangs", std::future::pending).await;
}
