//! The limits that operators set for the keys of users, keys that nobody could use, and the audit log.

use std::time::Duration;

use futures_util::future::join_all;
use gene_registry::config::Config;
use gene_registry::control::LoginToken;
use serde_json::{Value, json};

use super::replica;
use crate::support::binary::ReplicaProcess;
use crate::support::control::{ControlClient, KEYS_ROLE, new_token, prefix};
use crate::support::database::Database;
use crate::support::postgres::PostgresServer;
use crate::support::replica::{READER, Replica, sample};
use crate::support::wait::eventually;

const TIMEOUT: Duration = Duration::from_secs(20);

/// A user and an operator of a replica with these limits.
struct LimitSetup {
    alice: ControlClient,
    olga: ControlClient,
    replica: Replica,
    database: Database<'static>,
    config: Config,
}

impl LimitSetup {
    /// With the default limits, changed by `change`.
    async fn start(change: impl FnOnce(&mut Config)) -> Self {
        let mut tokens = Vec::new();
        let mut config = None;
        let (replica, database) = replica(|changed| {
            let defaults = crate::support::replica::config("postgres://h/d", None).control;
            changed.control.max_rate_limit = defaults.max_rate_limit;
            changed.control.scopes = defaults.scopes;
            changed.control.max_keys = defaults.max_keys;
            changed.control.operators = vec!["olga".to_owned()];
            tokens = ["alice", "olga"].map(|user| new_token(changed, user)).into();
            change(changed);
            config = Some(changed.clone());
        })
        .await;
        let [alice, olga] = [0, 1].map(|at| ControlClient::new(&replica, Some(&*tokens[at])));
        Self { alice, olga, replica, database, config: config.unwrap() }
    }

    /// Stores `count` live keys of Alice's without asking.
    async fn store_keys(&self, count: i32, sql_limit: &str) {
        let sql = format!(
            "insert into registry.owner (handle) values ('alice') on conflict do nothing;
             insert into registry.api_key
                (key_hash, prefix, owner, name, rate_limit_per_minute, created_at)
             select sha256(n::text::bytea), 'gr_' || lpad(n::text, 8, '0'), 'alice', 'n', {sql_limit},
                now() - interval '1 hour'
             from generate_series(1, {count}) n"
        );
        self.database.connect().await.batch_execute(&sql).await.unwrap();
    }

    /// Makes all keys two minutes older.
    async fn age_keys(&self) {
        let sql = "update registry.api_key set created_at = created_at - interval '2 min'";
        self.database.connect().await.batch_execute(sql).await.unwrap();
    }

    async fn live(&self) -> usize {
        self.alice.list().await.iter().filter(|key| key["status"] == "active").count()
    }
}

/// Checks that a request is refused with a text that has all of these words.
async fn assert_refused(caller: &ControlClient, path: &str, body: Value, words: &[&str]) {
    let response = caller.post(path, &body).await;
    response.assert_refused(403, "LIMIT_EXCEEDED");
    let text = response.json()["error"].as_str().unwrap().to_owned();
    assert!(words.iter().all(|word| text.contains(word)), "{body}: {text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn users_may_not_exceed_the_limits_and_operators_may() {
    let setup = LimitSetup::start(|_| {}).await;
    let with = |field: &str, value: Value| json!({ "name": "n", field: value });
    for (body, words) in [
        (with("rate_limit_per_minute", json!(601)), ["601", "600", "control.max_rate_limit"]),
        (
            with("rate_limit_per_minute", json!(2_147_483_647)),
            ["2147483647", "600", "control.max_rate_limit"],
        ),
    ] {
        assert_refused(&setup.alice, "/api-keys", body.clone(), &words).await;
        assert_eq!(setup.olga.post("/api-keys", &body).await.status, 201, "{body}");
    }
    let mut admin = with("scopes", json!(["read", "admin", "write"]));
    admin["block"] = json!(true);
    let words = ["admin, write", "read", "control.scopes"];
    assert_refused(&setup.alice, "/api-keys", admin.clone(), &words).await;
    assert_eq!(setup.olga.post("/api-keys", &admin).await.status, 201);
    assert_eq!(setup.live().await, 0, "nothing was created");

    let most = json!({ "name": "n", "scopes": ["read"], "rate_limit_per_minute": 600 });
    for _ in 0..20 {
        assert_eq!(setup.alice.post("/api-keys", &most).await.status, 201);
        assert_eq!(setup.olga.post("/api-keys", &most).await.status, 201);
    }
    let words = ["20", "control.max_keys"];
    assert_refused(&setup.alice, "/api-keys", most.clone(), &words).await;
    assert_eq!(setup.olga.post("/api-keys", &most).await.status, 201);
    // Keys that are revoked or expired do not count.
    let listed = setup.alice.list().await;
    let revoke = json!({ "prefix": listed[0]["prefix"] });
    assert_eq!(setup.alice.post("/api-keys/revoke", &revoke).await.status, 200);
    let expire = "update registry.api_key set expires_at = now() where prefix = $1";
    let client = setup.database.connect().await;
    let expired = listed[1]["prefix"].as_str().unwrap();
    assert_eq!(client.execute(expire, &[&expired]).await.unwrap(), 1);
    setup.age_keys().await;
    for _ in 0..2 {
        assert_eq!(setup.alice.post("/api-keys", &most).await.status, 201);
    }
    assert_refused(&setup.alice, "/api-keys", most, &words).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sixty_requests_at_once_on_two_replicas_do_not_exceed_the_limit_together() {
    let setup = LimitSetup::start(|config| config.control.max_keys = 7).await;
    let mut config = setup.config.clone();
    let token = new_token(&mut config, "carol");
    let (one, other) = (Replica::start(&config).await, Replica::start(&config).await);
    let callers = [&one, &other].map(|replica| ControlClient::new(replica, Some(&token)));
    let spec = json!({ "name": "n" });
    let statuses = join_all((0..60).map(|at| callers[at % 2].post("/api-keys", &spec))).await;
    let (made, others): (Vec<_>, Vec<_>) =
        statuses.iter().partition(|response| response.status == 201);
    assert_eq!(made.len(), 7);
    // On a slow machine, some wait too long for the others.
    let (busy, refused): (Vec<_>, Vec<_>) =
        others.into_iter().partition(|response| response.status == 503);
    busy.iter().for_each(|response| response.assert_refused(503, "UNAVAILABLE"));
    refused.iter().for_each(|response| response.assert_refused(403, "LIMIT_EXCEEDED"));
    assert_eq!(callers[0].list().await.len(), 7);
}

#[tokio::test(flavor = "multi_thread")]
async fn rotation_is_no_way_around_the_limits_and_keeps_existing_keys() {
    let setup = LimitSetup::start(|config| config.control.max_keys = 3).await;
    // From before the limits: more keys, with a higher limit each.
    setup.store_keys(4, "1000 * n").await;
    let rotate = |prefix: &Value, overlap: u32| json!({ "prefix": prefix, "overlap_s": overlap });
    let listed = setup.alice.list().await;
    let words = ["4", "3", "control.max_keys", "without an overlap"];
    let body = rotate(&listed[0]["prefix"], 60);
    assert_refused(&setup.alice, "/api-keys/rotate", body, &words).await;
    assert_eq!(setup.live().await, 4);
    for (at, key) in listed.iter().enumerate() {
        if at == 3 {
            let words = ["3", "control.max_keys", "ait a minute"];
            let body = rotate(&key["prefix"], 0);
            assert_refused(&setup.alice, "/api-keys/rotate", body, &words).await;
            setup.age_keys().await;
        }
        let rotated = setup.alice.post("/api-keys/rotate", &rotate(&key["prefix"], 0)).await;
        assert_eq!(rotated.status, 201, "{rotated:?}");
        let new = rotated.json();
        assert_eq!(new["rate_limit_per_minute"], key["rate_limit_per_minute"]);
        let served = setup.replica.get("/genes", new["key"].as_str()).await;
        assert_eq!(served.status, 200);
    }
    assert_eq!(setup.live().await, 4, "as many as before");
    setup.age_keys().await;
    // With room, an overlap is possible, but not twice for a key above the limits.
    let live = setup.alice.list().await;
    let live: Vec<_> = live.iter().filter(|key| key["status"] == "active").collect();
    for key in &live[1..] {
        let revoke = json!({ "prefix": key["prefix"] });
        assert_eq!(setup.alice.post("/api-keys/revoke", &revoke).await.status, 200);
    }
    let first = setup.alice.post("/api-keys/rotate", &rotate(&live[0]["prefix"], 60)).await;
    assert_eq!(first.status, 201, "{first:?}");
    let next = rotate(&first.json()["prefix"], 60);
    let predecessor = live[0]["prefix"].as_str().unwrap();
    let words = ["overlap", "control.max_rate_limit", predecessor];
    assert_refused(&setup.alice, "/api-keys/rotate", next.clone(), &words).await;
    let mut of_everybody = next;
    of_everybody["all"] = json!(true);
    assert_eq!(setup.olga.post("/api-keys/rotate", &of_everybody).await.status, 201);
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_that_nobody_could_use_are_created_only_on_request() {
    let setup = LimitSetup::start(|config| {
        config.control.scopes = vec!["read".to_owned(), "reports:read".to_owned()];
    })
    .await;
    for (field, value, word) in [
        ("rate_limit_per_minute", json!(0), "block"),
        ("scopes", json!(["raed"]), "raed"),
        ("scopes", json!(["read", "reports"]), "known scopes: read, reports:read"),
    ] {
        let mut body = json!({ "name": "n", field: value });
        for block in [None, Some(false)] {
            body["block"] = json!(block);
            let response = setup.olga.post("/api-keys", &body).await;
            response.assert_refused(400, "MISSING_PARAM");
            let text = response.json()["error"].as_str().unwrap().to_owned();
            assert!(text.starts_with(field) && text.contains(word), "{text}");
            assert!(text.contains("block is true"), "{text}");
            let response = setup.alice.post("/api-keys", &body).await;
            match field {
                "scopes" => response.assert_refused(403, "LIMIT_EXCEEDED"),
                _ => response.assert_refused(400, "MISSING_PARAM"),
            }
        }
        let body = json!({ "name": "n", field: value, "block": true });
        let created = setup.olga.post("/api-keys", &body).await;
        assert_eq!((created.status.as_u16(), &created.json()[field]), (201, &value));
    }
    let zero = json!({ "name": "n", "rate_limit_per_minute": 0, "block": true });
    let created = setup.alice.post("/api-keys", &zero).await.json();
    assert_eq!(setup.replica.get("/genes", created["key"].as_str()).await.status, 429);
    let known = json!({ "name": "n", "scopes": ["reports:read", "read"] });
    assert_eq!(setup.alice.post("/api-keys", &known).await.status, 201);
    let wrong = json!({ "name": "n", "block": "yes" });
    let refused = setup.alice.post("/api-keys", &wrong).await;
    refused.assert_refused(400, "MISSING_PARAM");
    assert!(refused.text.contains("block must be true or false"), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_a_key_takes_effect_and_stays_within_the_limits() {
    let setup = LimitSetup::start(|_| {}).await;
    let created = setup.alice.post("/api-keys", &json!({ "name": "ci" })).await.json();
    let key = created["key"].as_str().unwrap().to_owned();
    let update = |changes: Value| {
        let mut body = json!({ "prefix": prefix(&key) });
        body.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
        body
    };
    let words = ["601", "600", "control.max_rate_limit"];
    let above = update(json!({ "rate_limit_per_minute": 601 }));
    assert_refused(&setup.alice, "/api-keys/update", above.clone(), &words).await;
    setup.olga.post("/api-keys/update", &above).await.assert_refused(404, "NOT_FOUND");
    let of_everybody = update(json!({ "name": "x", "all": true }));
    setup.alice.post("/api-keys/update", &of_everybody).await.assert_refused(403, "FORBIDDEN");

    assert_eq!(setup.replica.get("/genes", Some(&key)).await.header("x-ratelimit-limit"), "30");
    let change = json!({ "name": "new", "rate_limit_per_minute": 600,
        "expires_at": "2090-01-31T00:00:00Z" });
    let changed = setup.alice.post("/api-keys/update", &update(change.clone())).await;
    assert_eq!(changed.status, 200, "{changed:?}");
    for field in ["name", "rate_limit_per_minute", "expires_at"] {
        assert_eq!(changed.json()[field], change[field], "{field}");
    }
    assert_eq!(setup.alice.list().await, [changed.json()]);
    eventually(TIMEOUT, "the new limit", || async {
        let served = setup.replica.get("/genes", Some(&key)).await;
        served.header("x-ratelimit-limit") == "600"
    })
    .await;
    let never = update(json!({ "never_expires": true, "expires_at": null, "name": null }));
    let changed = setup.alice.post("/api-keys/update", &never).await.json();
    assert_eq!((&changed["expires_at"], &changed["name"]), (&Value::Null, &json!("new")));

    let mut everything = update(json!({ "rate_limit_per_minute": 100_000, "all": true }));
    assert_eq!(setup.olga.post("/api-keys/update", &everything).await.status, 200);
    everything["rate_limit_per_minute"] = json!(0);
    for (body, word) in [
        (everything, "rate_limit_per_minute"),
        (update(json!({})), "body"),
        (update(json!({ "never_expires": false, "all": false, "name": null })), "body"),
        (update(json!({ "never_expires": true, "expires_at": "2090-01-31T00:00:00Z" })), "never"),
        (update(json!({ "expires_at": "2020-01-31T00:00:00Z" })), "expires_at"),
        (update(json!({ "name": " " })), "name"),
        (json!({ "name": "x" }), "prefix"),
    ] {
        let refused = setup.olga.post("/api-keys/update", &body).await;
        refused.assert_refused(400, "MISSING_PARAM");
        assert!(refused.json()["error"].as_str().unwrap().starts_with(word), "{refused:?}");
    }
    let revoke = json!({ "prefix": prefix(&key) });
    assert_eq!(setup.alice.post("/api-keys/revoke", &revoke).await.status, 200);
    let late = update(json!({ "name": "late" }));
    setup.alice.post("/api-keys/update", &late).await.assert_refused(409, "NOT_ACTIVE");
}

#[tokio::test(flavor = "multi_thread")]
async fn each_change_of_a_key_is_one_line_of_the_audit_log() {
    let database = sample(PostgresServer::shared().await).await;
    let (token, operator) = (LoginToken::generate().unwrap(), LoginToken::generate().unwrap());
    let hash = |token: &LoginToken| hex(&token.hash());
    let tokens = format!(
        "[{{user=\"alice\",sha256=\"{}\"}},{{user=\"olga\",sha256=\"{}\"}}]",
        hash(&token),
        hash(&operator)
    );
    let process = ReplicaProcess::start(&[
        ("DATABASE_URL", &database.url_as(READER)),
        ("CONTROL_DATABASE_URL", &database.url_as(KEYS_ROLE)),
        ("GENE_REGISTRY__CONTROL__BIND", "127.0.0.1:0"),
        ("GENE_REGISTRY__CONTROL__TOKENS", &tokens),
        ("GENE_REGISTRY__CONTROL__OPERATORS", "[\"olga\"]"),
        // As docs/scale.md advises.
        ("GENE_REGISTRY__LOG__LEVEL", "warn"),
    ])
    .await;
    let alice = ControlClient::new(&process.replica, Some(token.expose()));
    let olga = ControlClient::new(&process.replica, Some(operator.expose()));
    let created = alice.post("/api-keys", &json!({ "name": "n" })).await.json();
    let old = created["key"].as_str().unwrap();
    let update = json!({ "prefix": prefix(old), "rate_limit_per_minute": 7 });
    assert_eq!(alice.post("/api-keys/update", &update).await.status, 200);
    let rotated = alice.post("/api-keys/rotate", &json!({ "prefix": prefix(old) })).await.json();
    let new = rotated["key"].as_str().unwrap();
    let revoke = json!({ "prefix": prefix(new), "all": true });
    assert_eq!(olga.post("/api-keys/revoke", &revoke).await.status, 200);
    // None of these changes anything.
    alice.post("/api-keys", &json!({ "name": "n", "rate_limit_per_minute": 601 })).await;
    alice.post("/api-keys", &json!({})).await;
    alice.post("/api-keys/revoke", &json!({ "prefix": "gr_zzzz" })).await;
    let update = json!({ "prefix": prefix(new), "rate_limit_per_minute": 601 });
    alice.post("/api-keys/update", &update).await;
    alice.list().await;

    let log = process.into_log().await;
    let lines: Vec<Value> = log
        .lines()
        .filter(|line| line.contains("gene_registry::audit"))
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let expected = [
        json!(["alice", "control", "create", prefix(old), "alice", null]),
        json!(["alice", "control", "update", prefix(old), "alice", null]),
        json!(["alice", "control", "rotate", prefix(new), "alice", prefix(old)]),
        json!(["olga", "control", "revoke", prefix(new), "alice", null]),
    ];
    let shown = ["user", "via", "action", "prefix", "owner", "replaced"];
    let found: Vec<Value> =
        lines.iter().map(|line| shown.iter().map(|name| line[name].clone()).collect()).collect();
    assert_eq!(found, expected, "{log}");
    assert!(lines.iter().all(|line| line["level"] == "INFO"), "{log}");
    let others = log.lines().filter(|line| line.contains("\"level\":\"INFO\"")).count();
    assert_eq!(others, 4, "only the audit log: {log}");
    assert!([old, new].iter().all(|key| !log.contains(&key[12..])));
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
