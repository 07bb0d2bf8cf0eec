//! Creating and listing keys through a control listener.

use gene_registry::keys::ApiKey;
use serde_json::{Value, json};

use super::AccountSetup;
use crate::commands::run;
use crate::support::process::Launch;

const NAMES: [&str; 10] = [
    "日本語のキー",
    "naïve 👩‍🔬 emoji",
    "'; drop table registry.api_key; --",
    "% _ \\ \" ` $(id)",
    "a\tb\nc\r\u{1b}[31mred\u{9b}\u{7f}",
    "\u{202e}backwards",
    "{\"json\": [1]}",
    " spaces around ",
    "--json",
    "ی\u{200c}ک",
];

#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_created_used_listed_revoked_and_refused() {
    let setup = AccountSetup::start().await;
    let created = setup.ana.run(&["api-key", "create", "--name", "ci"]).await.ok();
    let key = created.stdout.strip_suffix('\n').unwrap();
    assert!(key.parse::<ApiKey>().is_ok(), "alone on standard output: {created:?}");
    assert!(!created.stderr.contains(key) && created.stderr.contains(&key[..11]), "{created:?}");
    assert_eq!(setup.status_of(key).await, 200);

    let listed = &setup.keys().await[0];
    for (field, value) in [
        ("prefix", json!(key[..11])),
        ("owner", json!("ana")),
        ("name", json!("ci")),
        ("scopes", json!(["read"])),
        ("rate_limit_per_minute", json!(30)),
        ("expires_at", Value::Null),
        ("status", json!("active")),
    ] {
        assert_eq!(listed[field], value, "{field}");
    }
    assert!(listed["created_at"].as_str().unwrap().ends_with('Z'), "{listed}");

    setup.ana.run(&["api-key", "revoke", "--prefix", &key[..11]]).await.ok();
    crate::support::wait::eventually(crate::commands::TIMEOUT, "the key is refused", || async {
        setup.status_of(key).await == 401
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_script_can_take_the_key_from_standard_output() {
    let setup = AccountSetup::start().await;
    let script = r#"KEY=$("$1" api-key create --name ci --expires 1d) && printf '<%s>' "$KEY""#;
    let launch = Launch::new("script", "sh")
        .args(["-c", script, "sh", env!("CARGO_BIN_EXE_gene-registry")])
        .env("XDG_CONFIG_HOME", setup.ana.folder.join("config"));
    let ended = run(launch).await.ok();
    let key = ended.stdout.trim_start_matches('<').trim_end_matches('>');
    assert_eq!(setup.status_of(key).await, 200, "{ended:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn json_has_the_key_once_and_the_requested_settings() {
    let setup = AccountSetup::start().await;
    let create =
        ["api-key", "create", "--name", "n", "--rate-limit", "7", "--expires", "2090-01-31"];
    let created = setup.ana.run(&[&create[..], &["--json"]].concat()).await.ok();
    let shown: Value = serde_json::from_str(&created.stdout).unwrap();
    assert!(shown["key"].as_str().unwrap().parse::<ApiKey>().is_ok());
    assert_eq!(shown["rate_limit_per_minute"], 7);
    assert_eq!(shown["expires_at"], "2090-01-31T00:00:00Z");
    let listed = setup.ana.run(&["api-key", "list", "--json"]).await.ok().stdout;
    assert!(!listed.contains(shown["key"].as_str().unwrap()));
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_key_settings_are_refused_before_any_request() {
    let setup = AccountSetup::start().await;
    let (long, long_scope) = ("語".repeat(201), "x".repeat(65));
    let many = [&["--name", "x"][..], &["--scope", "read"].repeat(17)].concat();
    for (wrong, option) in [
        (&["--name", ""][..], "--name"),
        (&["--name", "  "], "--name"),
        (&["--name", &long], "--name"),
        (&["--name", "a\nb"], "--name"),
        (&["--name", "\u{202e}x"], "--name"),
        (&["--name", "x", "--scope", ""], "--scope"),
        (&["--name", "x", "--scope", "re ad"], "--scope"),
        (&["--name", "x", "--scope", "READ"], "--scope"),
        (&["--name", "x", "--scope", &long_scope], "--scope"),
        (&many, "--scope"),
        (&["--name", "x", "--expires", "2020-01-31"], "--expires"),
        (&["--name", "x", "--expires", "9999-12-30"], "--expires"),
        (&["--name", "x", "--expires=-1h"], "--expires"),
        (&["--name", "x", "--expires", ""], "--expires"),
        (&["--name", "x", "--rate-limit=-1"], "--rate-limit"),
        (&["--name", "x", "--rate-limit", "2147483648"], "--rate-limit"),
        (&["--name", "x", "--direct", "--owner", " "], "--owner"),
        (&["--name", "x", "--direct", "--owner", "a\u{1b}b"], "--owner"),
        (&[], "--name"),
    ] {
        let ended = setup.ana.run(&[&["api-key", "create"], wrong].concat()).await.failed(2, &[]);
        assert!(ended.stderr.contains(option), "{option}: {ended:?}");
        assert!(!ended.stderr.contains(['\u{1b}', '\u{202e}']), "{ended:?}");
    }
    assert_eq!(setup.keys().await.len(), 0);
    setup.ana.run(&["api-key", "create", "--name", &"語".repeat(200)]).await.ok();
}

#[tokio::test(flavor = "multi_thread")]
async fn names_round_trip_and_are_sanitized_for_the_terminal() {
    let setup = AccountSetup::start().await;
    let mut taken = Vec::new();
    for name in NAMES {
        let ended = setup.ana.run(&["api-key", "create", &format!("--name={name}")]).await;
        if ended.code == 0 {
            taken.push(name);
        }
        let harmful = |character: char| {
            (character.is_control() && character != '\n') || character == '\u{202e}'
        };
        assert!(!ended.stderr.contains(harmful), "{ended:?}");
    }
    let refused = |name: &str| name.contains(['\u{1b}', '\u{202e}']);
    let expected: Vec<_> = NAMES.into_iter().filter(|name| !refused(name)).collect();
    assert_eq!(taken, expected);
    // Such names may be in the database already: what is shown of them is sanitized too.
    for (at, name) in NAMES.into_iter().filter(|name| refused(name)).enumerate() {
        let key = setup.create("to be renamed").await;
        let sql = "update registry.api_key set name = $1, created_at = created_at + $2::int * interval '1 min'
            where prefix = $3";
        let at = i32::try_from(at + 1).unwrap();
        let client = setup.database.connect().await;
        assert_eq!(client.execute(sql, &[&name, &at, &&key[..11]]).await.unwrap(), 1);
        taken.push(name);
    }
    let listed = setup.ana.run(&["api-key", "list", "--json"]).await.ok().stdout;
    let table = setup.ana.run(&["api-key", "list"]).await.ok().stdout;
    for text in [&listed, &table] {
        let harmful = |character: char| {
            (character.is_control() && character != '\n') || character == '\u{202e}'
        };
        assert!(!text.contains(harmful), "{text:?}");
    }
    let keys: Vec<Value> = serde_json::from_str(&listed).unwrap();
    let mut names: Vec<_> = keys.iter().map(|key| key["name"].as_str().unwrap()).collect();
    names.reverse();
    assert_eq!(names, taken, "newest first, and whole");
    assert_eq!(table.lines().count(), taken.len() + 1, "one line a key: {table}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_table_has_local_times_and_json_has_utc() {
    let setup = AccountSetup::start().await;
    let key = setup.create("ci").await;
    let sql = "update registry.api_key set created_at = '2026-01-31T23:30:00Z',
        expires_at = '2090-07-01T10:00:00Z'";
    setup.execute(sql).await;
    for (zone, created, expires) in [
        ("UTC", "2026-01-31 23:30 +00:00", "2090-07-01 10:00 +00:00"),
        ("Asia/Tokyo", "2026-02-01 08:30 +09:00", "2090-07-01 19:00 +09:00"),
        ("Europe/Berlin", "2026-02-01 00:30 +01:00", "2090-07-01 12:00 +02:00"),
        ("NPT-5:45", "2026-02-01 05:15 +05:45", "2090-07-01 15:45 +05:45"),
    ] {
        let list = |args: &[&str]| run(setup.ana.command(args).env("TZ", zone));
        let table = list(&["api-key", "list"]).await.ok().stdout;
        assert!(table.contains(created) && table.contains(expires), "{zone}: {table}");
        assert!(table.contains(&key[..11]), "{table}");
        let json = list(&["api-key", "list", "--json"]).await.ok().stdout;
        assert!(json.contains(r#""created_at":"2026-01-31T23:30:00Z""#), "{zone}: {json}");
        assert!(json.contains(r#""expires_at":"2090-07-01T10:00:00Z""#), "{zone}: {json}");
    }
}

fn without_colours(text: &str) -> String {
    let mut parts = text.split('\u{1b}');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + part.split_once('m').map_or("", |(_, rest)| rest))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_table_fits_the_terminal_and_uses_its_width() {
    let setup = AccountSetup::start().await;
    let long = "a name that is much too long for a table of eighty columns, in every case";
    for name in ["ci", long] {
        setup.create(name).await;
    }
    let sql = "update registry.api_key set created_at = '2026-01-31T23:30:00Z',
            expires_at = '2090-07-01T10:00:00Z', rate_limit_per_minute = 2147483647;
        insert into registry.api_key_usage (key_hash, last_used_at)
            select key_hash, '2026-02-01T10:00:00Z' from registry.api_key";
    setup.execute(sql).await;
    let operator = setup.operator().await;
    let list = async |columns: usize| {
        let terminal = operator.at_terminal_of(columns, &["api-key", "list", "--all"]).await;
        let (code, text) = terminal.wait_for_end().await;
        let text = without_colours(&text);
        assert_eq!((code, text.lines().count()), (0, 3), "{text}");
        let widest = text.lines().map(|line| line.chars().count()).max();
        assert!(widest <= Some(columns), "{columns}: {text}");
        assert!(text.contains("STATUS") && text.matches("active").count() == 2, "{text}");
        text
    };
    let narrow = list(80).await;
    for shown in ["2026-01-31", "2090-07-01", "2026-02-01", "2147483647", "…"] {
        assert!(narrow.contains(shown), "{shown}: {narrow}");
    }
    let wide = list(250).await;
    for shown in [long, "2090-07-01 10:00 +00:00"] {
        assert!(wide.contains(shown), "{shown}: {wide}");
    }
    setup.execute("update registry.api_key set expires_at = null").await;
    assert!(list(110).await.contains("2026-02-01 10:00"), "the time fits");
}

#[tokio::test(flavor = "multi_thread")]
async fn only_operators_list_the_keys_of_all_users() {
    let setup = AccountSetup::start().await;
    let key = setup.create("anas").await;
    let ended = setup.ana.run(&["api-key", "list", "--all"]).await.failed(1, &[]);
    assert!(ended.stderr.contains("operator"), "{ended:?}");

    let olga = setup.operator().await;
    let own = olga.run(&["api-key", "list"]).await.ok();
    assert!(!own.stdout.contains(&key[..11]), "{own:?}");
    let all = olga.run(&["api-key", "list", "--all"]).await.ok().stdout;
    assert!(all.contains("OWNER") && all.contains(&key[..11]), "{all}");
    olga.run(&["api-key", "revoke", "--prefix", &key[..11]]).await.failed(2, &[]);
    olga.run(&["api-key", "revoke", "--all", "--prefix", &key[..11]]).await.ok();
    assert_eq!(setup.keys().await[0]["status"], "revoked");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_closed_output_pipe_ends_the_command_quietly() {
    let setup = AccountSetup::start().await;
    setup.create("ci").await;
    let script = r#""$1" api-key list | true; "$1" completions bash | true; "$1" man | head -1"#;
    let launch = Launch::new("script", "sh")
        .args(["-c", script, "sh", env!("CARGO_BIN_EXE_gene-registry")])
        .env("XDG_CONFIG_HOME", setup.ana.folder.join("config"));
    let ended = run(launch).await.ok();
    assert_eq!(ended.stderr, "", "{ended:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn refusals_by_the_limits_of_users_name_them() {
    let setup = AccountSetup::with(|config| {
        config.control.max_rate_limit = 600;
        config.control.scopes = vec!["read".to_owned()];
        config.control.max_keys = 1;
    })
    .await;
    setup.log_in(&setup.ana, &setup.token).await;
    setup.create("ci").await;
    for (args, code, words) in [
        (&["--rate-limit", "601"][..], 1, ["601", "600", "control.max_rate_limit"]),
        (&["--scope", "admin", "--block"], 1, ["admin", "read", "control.scopes"]),
        (&["--rate-limit", "600"], 1, ["1", "live key", "control.max_keys"]),
        (&["--scope", "raed"], 1, ["raed", "read", "control.scopes"]),
        (&["--rate-limit", "0"], 2, ["--rate-limit", "0", "--block"]),
    ] {
        let create = [&["api-key", "create", "--name", "n"], args].concat();
        let refused = setup.ana.run(&create).await.failed(code, &[]);
        for word in words.iter().chain(&["nothing was changed"]) {
            assert!(refused.stderr.contains(word), "{word}: {refused:?}");
        }
    }
    assert_eq!(setup.keys().await.len(), 1);
    let operator = setup.operator().await;
    let typo = ["api-key", "create", "--name", "n", "--scope", "raed"];
    let refused = operator.run(&typo).await.failed(2, &[]);
    assert!(refused.stderr.contains("there is no scope raed; known scopes: read"), "{refused:?}");
    for _ in 0..2 {
        let create = ["api-key", "create", "--name", "n", "--rate-limit", "100000"];
        operator.run(&create).await.ok();
    }
    let block = ["api-key", "create", "--name", "n", "--rate-limit", "0", "--block", "--json"];
    let blocked = operator.run(&block).await.ok();
    assert!(blocked.stdout.contains("\"rate_limit_per_minute\":0"), "{blocked:?}");
}
