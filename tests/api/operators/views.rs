//! Views that cannot be read: readiness, the front page and the log say so.

use std::time::Duration;

use reqwest::Method;

use crate::support::binary::ReplicaProcess;
use crate::support::postgres::PostgresServer;
use crate::support::replica::{READER, Replica, Response, config, sample};
use crate::support::wait::eventually;

/// A ready replica checks the views every 30 seconds.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Statements that break a view, those that repair it, and a word of the cause.
const FAULTS: [[&str; 3]; 3] = [
    [
        "alter view registry_read.arena_evaluation rename to elsewhere",
        "alter view registry_read.elsewhere rename to arena_evaluation",
        "arena_evaluation",
    ],
    [
        "alter view registry_read.gene rename column phenotype to shape",
        "alter view registry_read.gene rename column shape to phenotype",
        "phenotype",
    ],
    [
        "revoke select on registry_read.api_key from gene_registry_reader",
        "grant select on registry_read.api_key to gene_registry_reader",
        "permission denied for view api_key",
    ],
];

async fn front_page(replica: &Replica) -> Response {
    let url = replica.base.trim_end_matches("/v1");
    replica.send(Method::GET, &format!("{url}/"), &[]).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_is_ready_once_it_can_read_the_views() {
    let database = sample(PostgresServer::shared().await).await;
    let owner = database.connect().await;
    for [broken, repaired, cause] in FAULTS {
        owner.batch_execute(broken).await.unwrap();
        let process = ReplicaProcess::start(&[("DATABASE_URL", &database.url_as(READER))]).await;
        process.wait_for_single_line(&["\"WARN\"", "views cannot be read", cause]).await;
        let ready = process.replica.ops("/readyz").await;
        assert_eq!(ready.status, 503, "{broken}");
        let body = ready.json();
        let states = [&body["status"], &body["views"], &body["upstream"], &body["change_log"]];
        assert_eq!(states, ["starting", "down", "up", "up"], "{broken}: {body}");
        let page = front_page(&process.replica).await.text;
        assert!(page.contains("Not able to start"), "{broken}: {page}");
        for text in [&page, &ready.text] {
            assert!(!text.contains("registry_read"), "{broken}: {text}");
        }

        owner.batch_execute(repaired).await.unwrap();

        eventually(TIMEOUT, "the replica is ready", || async {
            process.replica.ops("/readyz").await.status == 200
        })
        .await;
        assert_eq!(process.replica.ops("/readyz").await.json()["views"], "up");
        assert!(front_page(&process.replica).await.text.contains("All systems operational"));
        process.wait_for_single_line(&["views can be read again"]).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ready_replica_shows_that_its_views_cannot_be_read() {
    let database = sample(PostgresServer::shared().await).await;
    let replica = Replica::start(&config(&database.url_as(READER), None)).await;
    eventually(TIMEOUT, "the replica is ready", || async {
        replica.ops("/readyz").await.status == 200
    })
    .await;
    let owner = database.connect().await;
    let shows = async |field: &str, state: &str| {
        eventually(TIMEOUT, "its readiness shows it", || async {
            let ready = replica.ops("/readyz").await;
            assert_eq!(ready.status, 200, "it stays ready: {ready:?}");
            ready.json()[field] == state
        })
        .await;
    };
    let log = "revoke select on registry_read.change from gene_registry_reader";
    owner.batch_execute(&format!("{}; {log}", FAULTS[1][0])).await.unwrap();
    shows("change_log", "down").await;
    shows("views", "down").await;
    let page = front_page(&replica).await.text;
    assert!(page.contains("Serving cached answers only"), "{page}");
    assert!(!page.contains("registry_read"), "{page}");

    let log = "drop view registry_read.change";
    owner.batch_execute(&format!("{}; {log}", FAULTS[1][1])).await.unwrap();
    shows("views", "up").await;
    shows("change_log", "none").await;
    assert!(front_page(&replica).await.text.contains("All systems operational"));
}
