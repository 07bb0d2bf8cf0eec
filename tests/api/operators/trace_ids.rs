//! The log has the trace id of the caller, in any build.

use serde_json::Value;

use crate::support::binary::ReplicaProcess;
use crate::support::postgres::PostgresServer;
use crate::support::replica::{READER, sample};
use crate::support::wait::eventually;
use std::time::Duration;

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

#[tokio::test(flavor = "multi_thread")]
async fn the_log_has_the_callers_trace_and_the_requests_id() {
    let database = sample(PostgresServer::shared().await).await;
    let process = ReplicaProcess::start(&[("DATABASE_URL", &database.url_as(READER))]).await;
    let key = database.new_key(100).await;
    let (good, wrong) = (format!("00-{TRACE}-00f067aa0ba902b7-01"), format!("00-{TRACE}-1"));
    for (id, traceparent) in [("with-trace", &good), ("with-nonsense", &wrong)] {
        let headers = [("X-Request-Id", id), ("traceparent", traceparent), ("X-API-Key", &key)];
        let response = process.replica.raw("GET", "/v1/genes", &headers).await;
        assert_eq!((response.status.as_u16(), response.header("x-request-id")), (200, id));
    }
    let event = |id: &str| {
        let log = process.log();
        let events = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        events.into_iter().find(|event| event["request_id"] == id)
    };
    let soon = Duration::from_secs(10);
    eventually(soon, "both are logged", || async { event("with-nonsense").is_some() }).await;
    assert_eq!(event("with-trace").unwrap()["trace_id"], TRACE);
    assert_eq!(event("with-nonsense").unwrap()["trace_id"], Value::Null);
    assert_eq!(process.lines_with(&[&key]), 0);
}
