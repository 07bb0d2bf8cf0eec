//! The audit log has changes whose callers have gone, and ones that the database did not confirm.

use std::time::Duration;

use gene_registry::control::LoginToken;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio_postgres::Client;

use crate::support::binary::ReplicaProcess;
use crate::support::control::{ControlClient, KEYS_ROLE, prefix};
use crate::support::database::Database;
use crate::support::postgres::PostgresServer;
use crate::support::raw::address;
use crate::support::replica::{READER, Response, sample};
use crate::support::wait::eventually;

const TIMEOUT: Duration = Duration::from_secs(20);

const AT_COMMIT: &str = "pid <> pg_backend_pid() and datname = current_database()
    and query = 'COMMIT' and state = 'active' and wait_event_type = 'Lock'";

/// A replica with a user, whose changes of keys stop in COMMIT while the gate is closed.
struct Gated {
    process: ReplicaProcess,
    alice: ControlClient,
    database: Database<'static>,
}

impl Gated {
    async fn start() -> Self {
        let database = sample(PostgresServer::shared().await).await;
        let gate = "create table public.gate ();
            create function public.pass_gate() returns trigger language plpgsql security definer as
                $$ begin lock table public.gate in share mode; return null; end $$;
            create constraint trigger pass_gate after insert or update on registry.api_key
                deferrable initially deferred for each row execute function public.pass_gate()";
        database.connect().await.batch_execute(gate).await.unwrap();
        let token = LoginToken::generate().unwrap();
        let hash: String = token.hash().iter().map(|byte| format!("{byte:02x}")).collect();
        let process = ReplicaProcess::start(&[
            ("DATABASE_URL", &database.url_as(READER)),
            ("CONTROL_DATABASE_URL", &database.url_as(KEYS_ROLE)),
            ("GENE_REGISTRY__CONTROL__BIND", "127.0.0.1:0"),
            ("GENE_REGISTRY__CONTROL__MAX_RATE_LIMIT", "1000000"),
            ("GENE_REGISTRY__CONTROL__TOKENS", &format!("[{{user=\"alice\",sha256=\"{hash}\"}}]")),
        ])
        .await;
        let alice = ControlClient::new(&process.replica, Some(token.expose()));
        Self { process, alice, database }
    }

    /// Closes the gate, sends a change, and waits until the change stands in COMMIT. Returns the
    /// connection that holds the gate closed.
    async fn stop_in_commit(&self, path: &str, body: Value) -> (Client, JoinHandle<Response>) {
        let gate = self.database.connect().await;
        let close = "begin; lock table public.gate in access exclusive mode";
        gate.batch_execute(close).await.unwrap();
        let (alice, path) = (self.alice.clone(), path.to_owned());
        let sent = tokio::spawn(async move { alice.post(&path, &body).await });
        let observer = self.database.connect().await;
        let sql = format!("select count(*) from pg_stat_activity where {AT_COMMIT}");
        eventually(TIMEOUT, "the change is in COMMIT", || async {
            observer.query_one(&sql, &[]).await.unwrap().get::<_, i64>(0) == 1
        })
        .await;
        (gate, sent)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_whose_caller_has_gone_are_in_the_audit_log() {
    let gated = Gated::start().await;
    let [one, other] = [gated.alice.create("one").await, gated.alice.create("other").await];
    for (path, body, action) in [
        ("/api-keys", json!({ "name": "gone" }), "create"),
        ("/api-keys/update", json!({ "prefix": prefix(&one), "name": "new" }), "update"),
        ("/api-keys/rotate", json!({ "prefix": prefix(&one) }), "rotate"),
        ("/api-keys/revoke", json!({ "prefix": prefix(&other) }), "revoke"),
    ] {
        let words = ["gene_registry::audit", "API key changed", action];
        let before = gated.process.lines_with(&words);
        let (gate, sent) = gated.stop_in_commit(path, body).await;
        sent.abort();
        assert!(sent.await.unwrap_err().is_cancelled());
        gate.batch_execute("rollback").await.unwrap();
        eventually(TIMEOUT, &format!("the audit log has: {action}"), || async {
            gated.process.lines_with(&words) == before + 1
        })
        .await;
    }
    let mut found: Vec<_> =
        gated.alice.list().await.iter().map(|key| key["status"].to_string()).collect();
    found.sort_unstable();
    assert_eq!(
        found,
        ["active", "active", "active", "revoked"].map(|status| format!("{status:?}"))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shutdown_waits_for_changes_whose_caller_has_gone() {
    let gated = Gated::start().await;
    let (gate, sent) = gated.stop_in_commit("/api-keys", json!({ "name": "gone" })).await;
    sent.abort();
    assert!(sent.await.unwrap_err().is_cancelled());
    let control = gated.process.replica.control.clone().unwrap();
    let open_gate = async {
        eventually(TIMEOUT, "the control listener is closed", || async {
            TcpStream::connect(address(&control)).await.is_err()
        })
        .await;
        gate.batch_execute("rollback").await.unwrap();
    };
    let (ended, ()) = tokio::join!(gated.process.terminated_within(TIMEOUT), open_gate);
    assert!(ended.is_some_and(|status| status.success()), "{ended:?}");
    let words = ["gene_registry::audit", "API key changed", "create"];
    assert_eq!(gated.process.lines_with(&words), 1, "{}", gated.process.log());
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_that_the_database_did_not_confirm_are_in_the_audit_log() {
    let gated = Gated::start().await;
    let [one, other] = [gated.alice.create("one").await, gated.alice.create("other").await];
    for (path, body, action) in [
        ("/api-keys", json!({ "name": "lost" }), "create"),
        ("/api-keys/update", json!({ "prefix": prefix(&one), "name": "new" }), "update"),
        ("/api-keys/rotate", json!({ "prefix": prefix(&one) }), "rotate"),
        ("/api-keys/revoke", json!({ "prefix": prefix(&other) }), "revoke"),
    ] {
        let (_gate, sent) = gated.stop_in_commit(path, body).await;
        let end =
            format!("select pg_terminate_backend(pid) from pg_stat_activity where {AT_COMMIT}");
        gated.database.connect().await.query(&end, &[]).await.unwrap();
        let response = sent.await.unwrap();
        response.assert_refused(502, "DB_ERROR");
        assert!(response.text.contains("may have happened"), "{action}: {response:?}");
        let words = ["gene_registry::audit", "WARN", "API key may have changed", action];
        gated.process.wait_for_single_line(&words).await;
    }
}
