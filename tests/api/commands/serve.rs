//! `serve`, `healthcheck`, `openapi`

use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use gene_registry::app::{self, StartError};
use gene_registry::upstream::Postgres;
use rustix::process::Pid;
use serde_json::Value;

use super::{TIMEOUT, gene_registry, run};
use crate::support::free_port;
use crate::support::postgres::PostgresServer;
use crate::support::process::{Launch, Signal};
use crate::support::raw::address;
use crate::support::redis::RedisServer;
use crate::support::replica::{Fleet, READER, Replica, config, sample};
use crate::support::scratch_folder;
use crate::support::wait::{eventually, until};

fn serve(database_url: &str, ready_file: &Path) -> Launch {
    gene_registry(["serve".as_ref(), "--ready-file".as_ref(), ready_file.as_os_str()])
        .env("DATABASE_URL", database_url)
        .env("GENE_REGISTRY__SERVER__BIND", "127.0.0.1:0")
        .env("GENE_REGISTRY__OPS__BIND", "127.0.0.1:0")
}

/// The port accepts before the replica is complete: the signal arrives while it still starts.
#[tokio::test(flavor = "multi_thread")]
async fn a_signal_as_soon_as_the_port_accepts_ends_the_service_with_0() {
    for command in ["serve", "demo"].repeat(10) {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
        let process = gene_registry([command])
            .env("DATABASE_URL", "postgres://127.0.0.1:1/none")
            .env("GENE_REGISTRY__SERVER__BIND", address.to_string())
            .env("GENE_REGISTRY__SERVER__DRAIN_MS", "0")
            .env("GENE_REGISTRY__OPS__BIND", "127.0.0.1:0")
            .start();
        let end = std::time::Instant::now() + TIMEOUT;
        while TcpStream::connect(address).is_err() {
            let is_in_time = process.is_running() && std::time::Instant::now() < end;
            assert!(is_in_time, "{}", process.report());
            tokio::time::sleep(Duration::from_micros(100)).await;
        }
        // Not by a shell: while that starts, the replica would be complete.
        let pid = Pid::from_raw(process.pid().try_into().unwrap()).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        assert_eq!(process.wait_exit(TIMEOUT).await.code(), Some(0), "{}", process.report());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn serve_writes_the_ready_file_when_it_listens_and_ends_with_0_when_terminated() {
    let database = sample(PostgresServer::shared().await).await;
    let key = database.new_key(100).await;
    for signal in [Signal::Term, Signal::Int] {
        let file = scratch_folder("ready").join("ready.json");
        let process = serve(&database.url_as(READER), &file).start();
        let ready = until(TIMEOUT, "the ready file is written", || async {
            assert!(process.is_running(), "{}", process.report());
            std::fs::read_to_string(&file).ok()
        })
        .await;

        let ready: Value = serde_json::from_str(&ready).expect("complete from the beginning");
        let names: Vec<_> = ready.as_object().unwrap().keys().collect();
        assert_eq!(names, ["base_url", "ops_url", "control_url"]);
        assert_eq!(ready["control_url"], Value::Null);
        let base = ready["base_url"].as_str().unwrap();
        assert!(base.starts_with("http://127.0.0.1:") && base.ends_with("/v1"), "{base}");
        let client = reqwest::Client::new();
        let request = client.get(format!("{base}/genes")).header("X-API-Key", &key);
        assert_eq!(request.send().await.unwrap().status(), 200);
        let livez = format!("{}/livez", ready["ops_url"].as_str().unwrap());
        assert_eq!(client.get(livez).send().await.unwrap().status(), 200);

        process.signal(signal);
        assert_eq!(process.wait_exit(TIMEOUT).await.code(), Some(0), "{}", process.report());
        assert_eq!(process.stdout(), "");
        let log = process.stderr();
        for line in log.lines() {
            let event = serde_json::from_str::<Value>(line);
            assert!(event.is_ok_and(|event| event.is_object()), "no terminal, so JSON: {line}");
        }
        assert!(log.contains(r#""route":"/v1/genes""#), "one event a request: {log}");
        assert!(!log.contains(&key), "{log}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_signal_ends_serve_at_once() {
    let database = sample(PostgresServer::shared().await).await;
    for second in [Signal::Term, Signal::Int] {
        let file = scratch_folder("ready").join("ready.json");
        let launch = serve(&database.url_as(READER), &file);
        let process = launch.env("GENE_REGISTRY__SERVER__DRAIN_MS", "600000").start();
        let ready = until(TIMEOUT, "the ready file is written", || async {
            serde_json::from_str::<Value>(&std::fs::read_to_string(&file).ok()?).ok()
        })
        .await;
        let readyz = format!("{}/readyz", ready["ops_url"].as_str().unwrap());

        process.signal(Signal::Term);
        eventually(TIMEOUT, "the replica drains", || async {
            let response = reqwest::get(&readyz).await.unwrap();
            response.text().await.unwrap().contains("draining")
        })
        .await;
        assert!(process.is_running(), "{}", process.report());
        process.signal(second);

        let code = process.wait_exit(TIMEOUT).await.code();
        assert_eq!(code, Some(130), "{}", process.report());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn serve_prints_the_control_address_and_refuses_to_start_without_logins() {
    let database = sample(PostgresServer::shared().await).await;
    let file = scratch_folder("ready").join("ready.json");
    let token = format!("[{{user=\"alice\",sha256=\"{}\"}}]", "ab".repeat(32));
    let command = || {
        serve(&database.url_as(READER), &file).env("GENE_REGISTRY__CONTROL__BIND", "127.0.0.1:0")
    };
    let ended = run(command()).await.failed(1, &[]);
    assert!(ended.stderr.contains("control.bind"), "{ended:?}");
    let process = command().env("GENE_REGISTRY__CONTROL__TOKENS", &token).start();
    let ready = until(TIMEOUT, "the ready file is written", || async {
        assert!(process.is_running(), "{}", process.report());
        std::fs::read_to_string(&file).ok()
    })
    .await;
    let ready: Value = serde_json::from_str(&ready).unwrap();
    let control = ready["control_url"].as_str().unwrap();
    let login = reqwest::get(format!("{control}/control/v1/login")).await.unwrap();
    assert_eq!(login.json::<Value>().await.unwrap()["methods"][0], "token");
    process.signal(Signal::Term);
    assert_eq!(process.wait_exit(TIMEOUT).await.code(), Some(0), "{}", process.report());
}

#[tokio::test(flavor = "multi_thread")]
async fn serve_reports_a_missing_database_and_a_taken_address() {
    let ended = run(gene_registry(["serve"])).await.failed(1, &[]);
    assert!(ended.stderr.contains("upstream.url"), "{ended:?}");

    let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    let ready = scratch_folder("ready").join("ready.json");
    for key in ["SERVER__BIND", "OPS__BIND", "CONTROL__BIND"] {
        let url = "postgres://127.0.0.1:1/none";
        let token = format!("[{{user=\"alice\",sha256=\"{}\"}}]", "ab".repeat(32));
        let command = serve(url, &ready)
            .env("GENE_REGISTRY__CONTROL__TOKENS", &token)
            .env(format!("GENE_REGISTRY__{key}"), &taken);
        let ended = run(command).await;
        let name = key.to_lowercase().replace("__", ".");
        assert_eq!(ended.code, 1, "{ended:?}");
        assert!(ended.stderr.contains(&name) && ended.stderr.contains(&taken), "{ended:?}");
    }
    assert!(!ready.exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_start_leaves_no_listener() {
    let database = sample(PostgresServer::shared().await).await;
    let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let mut config = config(&database.url_as(READER), None);
    config.server.bind = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
    config.ops.bind = taken.local_addr().unwrap();
    let upstream = Postgres::new(&config.upstream, "get {id}".to_owned()).unwrap();

    let failed = app::start(&config, Arc::new(upstream)).await;

    assert!(matches!(failed, Err(StartError::Bind { key: "ops.bind", .. })), "{failed:?}");
    TcpListener::bind(config.server.bind).expect("the public address is free again");
}

#[tokio::test(flavor = "multi_thread")]
async fn healthcheck_succeeds_only_for_a_ready_replica() {
    let (postgres, redis) = (PostgresServer::shared().await, RedisServer::shared().await);
    let fleet = Fleet::start(1, postgres, redis).await;
    let ready = &fleet.replicas[0];
    eventually(TIMEOUT, "the replica is ready", || async {
        ready.ops("/readyz").await.status == 200
    })
    .await;
    let check = async |address: &str| {
        let command = gene_registry(["healthcheck"]).env("GENE_REGISTRY__OPS__BIND", address);
        run(command).await
    };
    assert!(check(&address(&ready.ops)).await.ok().stdout.contains("200"));
    let port = address(&ready.ops).rsplit_once(':').unwrap().1.to_owned();
    check(&format!("0.0.0.0:{port}")).await.ok();
    assert_eq!(check(&format!("127.0.0.1:{}", free_port())).await.code, 1);
    let starting = Replica::start(&config("postgres://127.0.0.1:1/none", None)).await;
    // Within the first ten seconds, since its database is never available.
    assert_eq!(check(&address(&starting.ops)).await.code, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn openapi_prints_the_document_without_any_database() {
    let json = run(gene_registry(["openapi"])).await.ok();
    let document: Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(document["openapi"], "3.0.3");
    let yaml = run(gene_registry(["openapi", "--format", "yaml"])).await.ok();
    assert!(yaml.stdout.starts_with("openapi: "), "{}", &yaml.stdout[..40]);
    assert_eq!((json.stderr.as_str(), yaml.stderr.as_str()), ("", ""));
}
