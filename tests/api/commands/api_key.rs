//! `api-key … --direct`

use gene_registry::keys::ApiKey;
use serde_json::Value;

use super::{CommandResult, run_on};
use crate::support::database::Database;
use crate::support::postgres::PostgresServer;
use crate::support::replica::{READER, Replica, config, long_timeouts, sample};

struct KeySetup(Database<'static>);

impl KeySetup {
    async fn start() -> Self {
        Self(sample(PostgresServer::shared().await).await)
    }

    async fn api_key(&self, args: &[&str]) -> CommandResult {
        let args = [&["api-key"], args, &["--direct", "--owner", "team-a"]].concat();
        run_on(&self.0.url(), args).await
    }

    /// A new key in plain text.
    async fn create(&self, args: &[&str]) -> String {
        let created = self.api_key(&[&["create", "--name", "ci"], args].concat()).await.ok();
        created.stdout.strip_suffix('\n').unwrap().to_owned()
    }

    async fn list(&self) -> Vec<Value> {
        let listed = self.api_key(&["list", "--json"]).await.ok();
        serde_json::from_str(&listed.stdout).unwrap()
    }

    /// The statuses of all keys, by name.
    async fn statuses(&self) -> Vec<(String, String)> {
        let text = |key: &Value, field: &str| key[field].as_str().unwrap().to_owned();
        let keys = self.list().await;
        let mut found: Vec<_> =
            keys.iter().map(|key| (text(key, "name"), text(key, "status"))).collect();
        found.sort();
        found
    }

    async fn replica(&self) -> Replica {
        let mut config = config(&self.0.url_as(READER), None);
        long_timeouts(&mut config);
        Replica::start(&config).await
    }

    async fn execute(&self, sql: &str) {
        self.0.connect().await.batch_execute(sql).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn standard_output_has_only_the_created_key_which_works() {
    let setup = KeySetup::start().await;
    let created = setup.api_key(&["create", "--name", "ci"]).await.ok();
    let key = created.stdout.strip_suffix('\n').unwrap();
    assert!(key.parse::<ApiKey>().is_ok(), "{created:?}");
    assert!(!created.stderr.contains(key) && created.stderr.contains(&key[..11]), "{created:?}");

    let response = setup.replica().await.get("/genes", Some(key)).await;
    assert_eq!(response.status, 200);
    assert_eq!(response.header("x-ratelimit-limit"), "30", "the default");
    let stored = &setup.list().await[0];
    assert_eq!(
        (&stored["prefix"], &stored["owner"]),
        (&Value::from(&key[..11]), &Value::from("team-a"))
    );
    assert_eq!(stored["scopes"], serde_json::json!(["read"]));
    assert_eq!(stored["expires_at"], Value::Null);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_created_with_the_given_scopes_limit_and_expiry() {
    let setup = KeySetup::start().await;
    let args = ["create", "--name", "n", "--scope", "read", "--scope", "x", "--rate-limit", "7"];
    let args = [&args[..], &["--expires", "90d", "--json"]].concat();
    let refused = setup.api_key(&args).await.failed(2, &[]);
    assert!(refused.stderr.contains("--scope: there is no scope x"), "{refused:?}");
    let created = setup.api_key(&[&args[..], &["--block"]].concat()).await.ok();
    let shown: Value = serde_json::from_str(&created.stdout).unwrap();
    let key = shown["key"].as_str().unwrap();
    let response = setup.replica().await.get("/genes", Some(key)).await;
    assert_eq!((response.status.as_u16(), response.header("x-ratelimit-limit")), (200, "7"));
    let stored = &setup.list().await[0];
    for field in ["prefix", "name", "scopes", "rate_limit_per_minute", "expires_at"] {
        assert_eq!(stored[field], shown[field], "{field}");
    }
    for wrong in
        [&["--expires", "soon"][..], &["--rate-limit", "-1"], &["--rate-limit", "2147483648"]]
    {
        let refused = setup.api_key(&[&["create", "--name", "x"], wrong].concat()).await;
        refused.failed(2, &[]);
    }
    assert_eq!(setup.list().await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn list_marks_expired_and_revoked_keys_and_shows_no_secret() {
    let setup = KeySetup::start().await;
    let mut secrets = Vec::new();
    for name in ["active", "expired", "revoked", "both"] {
        let key = setup.create(&["--expires", "90d"]).await;
        let name_it =
            format!("update registry.api_key set name = '{name}' where prefix = '{}'", &key[..11]);
        setup.execute(&name_it).await;
        let hash = ApiKey::hash(&key.parse().unwrap());
        secrets.push(hash.0.iter().map(|byte| format!("{byte:02x}")).collect::<String>());
        secrets.push(key[11..].to_owned());
    }
    setup
        .execute(
            "update registry.api_key set created_at = now() - interval '2 h',
                expires_at = now() - interval '1 h' where name in ('expired', 'both');
             update registry.api_key set revoked_at = now() where name in ('revoked', 'both')",
        )
        .await;
    let expected =
        [("active", "active"), ("both", "revoked"), ("expired", "expired"), ("revoked", "revoked")]
            .map(|(name, status)| (name.to_owned(), status.to_owned()));
    assert_eq!(setup.statuses().await, expected);

    let table = setup.api_key(&["list"]).await.ok().stdout;
    let header: Vec<_> = table.lines().next().unwrap().split_whitespace().collect();
    assert_eq!(header.join(" "), "PREFIX NAME SCOPES LIMIT CREATED EXPIRES LAST USED STATUS");
    for (name, status) in &expected {
        let fits = |line: &&str| line.ends_with(status) && line.contains(&format!("  {name} "));
        assert!(table.lines().any(|line| fits(&line)), "{name} {status}: {table}");
    }
    let json = setup.api_key(&["list", "--json"]).await.ok().stdout;
    for secret in secrets {
        assert!(!table.contains(&secret) && !json.contains(&secret), "{secret}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn infinite_times_are_shown_as_never() {
    let setup = KeySetup::start().await;
    setup.create(&[]).await;
    setup.execute("update registry.api_key set expires_at = 'infinity'").await;
    let listed = setup.list().await.remove(0);
    assert_eq!((&listed["status"], &listed["expires_at"]), (&"active".into(), &Value::Null));
    assert!(setup.api_key(&["list"]).await.ok().stdout.contains("never"));
}

#[tokio::test(flavor = "multi_thread")]
async fn list_and_revoke_see_only_the_owners_keys() {
    let setup = KeySetup::start().await;
    let other = setup.0.new_key_with(|key| key.owner = "team-b".to_owned()).await;
    assert_eq!(setup.list().await.len(), 0);
    setup.api_key(&["revoke", "--prefix", &other[..11]]).await.failed(2, &[&other]);
    assert_eq!(setup.replica().await.get("/genes", Some(&other)).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revoked_key_is_refused_and_revoking_it_again_changes_nothing() {
    let setup = KeySetup::start().await;
    for prefix in [0..11, 3..7] {
        let key = setup.create(&[]).await;
        let revoked = setup.api_key(&["revoke", "--prefix", &key[prefix.clone()]]).await.ok();
        assert!(revoked.stdout.contains(&key[..11]), "{revoked:?}");
        assert_eq!(setup.replica().await.get("/genes", Some(&key)).await.status, 401);
        let before = setup.list().await;
        setup.api_key(&["revoke", "--prefix", &key[prefix]]).await.ok();
        assert_eq!(setup.list().await, before);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ambiguous_prefixes_revoke_nothing() {
    let setup = KeySetup::start().await;
    let keys = [setup.create(&[]).await, setup.create(&[]).await];
    for (key, prefix) in keys.iter().zip(["gr_same0001", "gr_same0002"]) {
        let sql = format!(
            "update registry.api_key set prefix = '{prefix}', name = '{prefix}'
             where prefix = '{}'",
            &key[..11]
        );
        setup.execute(&sql).await;
    }
    for ambiguous in ["same", "gr_same000"] {
        let ended = setup.api_key(&["revoke", "--prefix", ambiguous]).await.failed(2, &[]);
        assert!(ended.stderr.contains("gr_same0001") && ended.stderr.contains("gr_same0002"));
    }
    for unknown in ["none", "gr_zzzz9999", "SAME"] {
        setup.api_key(&["revoke", "--prefix", unknown]).await.failed(2, &[]);
    }
    // Too short, no beginning of a key, or a whole key, which nobody should type here.
    for wrong in ["", "sam", "gr_", "s%me", "____", keys[0].as_str()] {
        let ended = setup.api_key(&["revoke", "--prefix", wrong]).await;
        ended.failed(2, &[&keys[0][11..]]);
    }
    let active = setup.statuses().await.iter().all(|(_, status)| status == "active");
    assert!(active, "nothing was revoked");
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_are_managed_on_the_database_only_on_request() {
    let setup = KeySetup::start().await;
    for args in [
        &["api-key", "list"][..],
        &["api-key", "list", "--owner", "team-a"],
        &["api-key", "create", "--name", "x", "--direct"],
    ] {
        run_on(&setup.0.url(), args).await.failed(2, &[]);
    }
    assert_eq!(setup.list().await.len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn operators_are_exempt_from_limits_and_create_useless_keys_only_on_request() {
    let setup = KeySetup::start().await;
    for (wrong, says) in [
        (&["--rate-limit", "0"][..], "--rate-limit: a key with the rate limit 0 is never served"),
        (&["--scope", "raed"], "--scope: there is no scope raed; known scopes: read"),
    ] {
        let create = [&["create", "--name", "n"], wrong].concat();
        let refused = setup.api_key(&create).await.failed(2, &[]);
        assert!(refused.stderr.contains(says) && refused.stderr.contains("--block"), "{refused:?}");
        setup.api_key(&[&create[..], &["--block"]].concat()).await.ok();
    }
    for _ in 0..20 {
        setup.create(&["--rate-limit", "2147483647"]).await;
    }
    assert_eq!(setup.list().await.len(), 22);
}

#[tokio::test(flavor = "multi_thread")]
async fn each_change_in_the_database_is_one_line_of_the_audit_log() {
    let setup = KeySetup::start().await;
    let audited = |ended: &CommandResult| {
        let lines = ended.stderr.lines().filter(|line| line.contains("gene_registry::audit"));
        let lines: Vec<Value> = lines.map(|line| serde_json::from_str(line).unwrap()).collect();
        let field = |line: &Value, name| line[name].as_str().unwrap_or_default().to_owned();
        for line in &lines {
            assert!(field(line, "user").contains("uid ") && line["via"] == "direct", "{line}");
        }
        let shown = ["action", "prefix", "owner", "replaced"];
        lines.iter().map(|line| shown.map(|name| field(line, name))).collect::<Vec<_>>()
    };
    let created = setup.api_key(&["create", "--name", "n"]).await.ok();
    let old = &created.stdout[..11];
    assert_eq!(audited(&created), [["create", old, "team-a", ""]]);
    let rotated = setup.api_key(&["rotate", "--prefix", old]).await.ok();
    let new = &rotated.stdout[..11];
    assert_eq!(audited(&rotated), [["rotate", new, "team-a", old]]);
    let revoked = setup.api_key(&["revoke", "--prefix", new]).await.ok();
    assert_eq!(audited(&revoked), [["revoke", new, "team-a", ""]]);
    let nothing = setup.api_key(&["revoke", "--prefix", "gr_zzzz"]).await.failed(2, &[]);
    let listed = setup.api_key(&["list"]).await.ok();
    let refused = setup.api_key(&["create", "--name", "n", "--rate-limit", "0"]).await;
    for unchanged in [nothing, listed, refused] {
        assert!(audited(&unchanged).is_empty(), "{unchanged:?}");
    }
}
