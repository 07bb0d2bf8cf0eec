//! `config check` and `config print`

mod secrets;

use std::path::PathBuf;

use super::{gene_registry, run};
use crate::support::process::Launch;
use crate::support::scratch_folder;

fn file(text: &str) -> PathBuf {
    let path = scratch_folder("config").join("registry.toml");
    std::fs::write(&path, text).unwrap();
    path
}

fn config(action: &str, text: &str) -> Launch {
    gene_registry(["config".as_ref(), action.as_ref(), "--config".as_ref(), file(text).as_os_str()])
}

#[tokio::test(flavor = "multi_thread")]
async fn config_check_accepts_a_valid_configuration() {
    let url = "postgres://127.0.0.1:1/none";
    run(gene_registry(["config", "check"]).env("DATABASE_URL", url)).await.ok();
    let good = format!(
        "[server]\nbind = \"127.0.0.1:0\"\n[cache.search]\nfresh_s = 1\n[upstream]\nurl = \"{url}\"\n"
    );
    let good = good.as_str();
    run(config("check", good)).await.ok();
    let named = gene_registry(["config", "check"]).env("GENE_REGISTRY_CONFIG", file(good));
    run(named).await.ok();
}

#[tokio::test(flavor = "multi_thread")]
async fn config_check_warns_of_ignored_variables_and_what_doctor_finds_offline() {
    let check =
        || gene_registry(["config", "check"]).env("DATABASE_URL", "postgres://reader@db/registry");
    let ended = run(check().env("GENE_REGISTRY_SERVER__BIND", "127.0.0.1:1")).await.ok();
    assert!(ended.stderr.contains("GENE_REGISTRY_SERVER__BIND is ignored"), "{ended:?}");
    assert_eq!(ended.stderr.lines().count(), 1, "{ended:?}");
    let ended = run(check().env("GENE_REGISTRY__RATE_LIMIT__REPLICAS", "3")).await.ok();
    assert!(ended.stderr.contains("3 replicas have no Redis in common"), "{ended:?}");
    // As Kubernetes sets them for a service of this name.
    let check = check()
        .env("GENE_REGISTRY_CONFIG", file("[log]"))
        .env("GENE_REGISTRY_SERVICE_HOST", "10.0.0.1")
        .env("GENE_REGISTRY_PORT_8080_TCP_ADDR", "10.0.0.1")
        .env("GENE_REGISTRY_PORT", "tcp://10.0.0.1:8080");
    assert_eq!(run(check).await.ok().stderr, "");
}

#[tokio::test(flavor = "multi_thread")]
async fn config_check_names_the_key_of_every_error() {
    for (text, named) in [
        ("[server]\nbnid = \"127.0.0.1:1\"", "server.bnid"),
        ("[sever]\nbind = \"127.0.0.1:1\"", "sever"),
        ("[server]\nbind = \"nowhere\"", "server.bind"),
        ("[server]\nmax_connections = -1", "server.max_connections"),
        ("[redis]\ntimeout_ms = \"soon\"", "redis.timeout_ms"),
        ("[redis]\nprefix = \"\"", "redis.prefix"),
        ("[server.tls]\ncert_file = \"/nowhere.crt\"", "server.tls.key_file"),
        (
            "[server.tls]\ncert_file = \"/nowhere.crt\"\nkey_file = \"/nowhere.key\"",
            "server.tls: /nowhere.key",
        ),
        (
            "[server.tls]\ncert_file = \"\"\nkey_file = \"\"",
            "server.tls.cert_file: must name a PEM",
        ),
        (
            "[control.oidc]\ntls_ca_file = \"/nowhere.pem\"",
            "control.oidc.tls_ca_file: /nowhere.pem",
        ),
        ("[upstream]\ntls_ca_file = \"/nowhere.pem\"", "upstream.tls_ca_file: /nowhere.pem"),
        ("[upstream]\ntls_ca_file = \"\"", "upstream.tls_ca_file: must name a PEM"),
        ("[shed]\nwait_ms = 2001", "shed.wait_ms"),
        ("[server.cors]\norigins = [\"app.example\"]", "server.cors.origins"),
        ("[shed]\nmax_misses = 16", "shed.max_misses"),
        ("[upstream]\nquery_ms = 0", "upstream.query_ms"),
        ("[upstream]\ndeadline_ms = 1", "upstream.deadline_ms"),
        ("", "upstream.url: must be set"),
        ("[upstream]\nurl = \"\"", "upstream.url: must be set"),
        ("[upstream]\nurl = 5", "upstream.url"),
        ("[cache.insights]\nif_error_s = 1", "cache.insights.if_error_s"),
        ("[rate_limit]\nwithout_redis = \"hope\"", "rate_limit.without_redis"),
        ("[log]\nlevel = \"info,=,\"", "log.level"),
        ("[log]\nlevel = \"warning\"", "log.level: \"warning\" is not a level; use off, error"),
        ("[log]\nlevel = \"loud\"", "log.level: \"loud\" is not a level"),
        ("[log]\nlevel = \"info,warning\"", "log.level: \"warning\" is not a level"),
        ("[log]\nlevel = \"info,gene_registry=loud\"", "log.level: \"gene_registry=loud\""),
        ("[log]\nlevel = \"info,gene_registry\"", "log.level: \"gene_registry\" is not a level"),
        ("[log]\nlevel = \"info,gene_registry=\"", "log.level: \"gene_registry=\" is not"),
        ("[log]\nlevel = \"\"", "log.level: \"\" is not a level"),
        ("[log]\nformat = \"xml\"", "log.format"),
        ("[server]\npublic_url = \"api.example\"", "server.public_url"),
        ("[server]\npublic_url = \"https://api.example/?q\"", "server.public_url"),
        ("[server]\nmax_connections = 1000001", "server.max_connections: must be 1000000 or less"),
        ("[server]\nidle_timeout_ms = 86400001", "server.idle_timeout_ms"),
        ("[server]\nbind = \"127.0.0.1:9464\"", "ops.bind"),
        ("[server]\nbind = \"0.0.0.0:9464\"", "ops.bind: must not overlap with server.bind"),
        ("[server]\nbind = \"[::]:9464\"", "ops.bind"),
        ("[ops]\nbind = \"127.0.0.1:8080\"", "ops.bind"),
        ("[control]\nbind = \"127.0.0.1:8080\"", "control.bind: must not overlap"),
        ("[upstream]\npool_size = 10001", "upstream.pool_size"),
        ("[upstream]\ndeadline_ms = 9223372036854775807", "upstream.deadline_ms"),
        ("[upstream]\nurl = \"mysql://h/d\"", "upstream.url"),
        (
            "[upstream]\nurl = \"postgres://h/d?target_session_attrs=master\"",
            "target_session_attrs; use any, primary",
        ),
        ("[upstream]\nurl = \"postgres://h/d?sslmode=allow\"", "sslmode; use disable"),
        ("[upstream]\nread_urls = [5]", "upstream.read_urls"),
        ("[upstream]\nread_urls = \"postgres://h/d\"", "upstream.read_urls"),
        (
            "[upstream]\nurl = \"postgres://h/d\"\nread_urls = [\"mysql://h/d\"]",
            "upstream.read_urls: entry 1 is",
        ),
        (
            "[upstream]\nurl = \"postgres://h/d\"\nread_urls = [\"postgres://a,b/d\"]",
            "give each standby its own URL",
        ),
        ("[upstream]\nmax_lag_ms = 0", "upstream.max_lag_ms: must be 1 or more"),
        ("[redis]\npool_size = 0", "redis.pool_size"),
        ("[redis]\nurl = \"http://h\"", "redis.url: not a usable URL"),
        ("[redis]\nurl = \"rediss://h#insecure\"", "redis.url: must have no fragment"),
        ("[redis]\nurl = \"redis://:50%@h\"", "redis.url: must have two hexadecimal digits"),
        ("[upstream]\nurl = \"postgres://u:a#b@h/d\"", "a # in a password is written as %23"),
        ("[upstream]\nurl = \"postgres://u:50%@h/d\"", "a % in a password is written as %25"),
        ("[redis]\nurl = \"redis://h\"\ntls_ca_file = \"a\"", "redis.tls_ca_file: is only for"),
        (
            "[redis]\nurl = \"rediss://h\"\ntls_ca_file = \"/nowhere.pem\"",
            "redis.tls_ca_file: /nowhere.pem",
        ),
        ("[redis]\ntopology = \"sentinel\"\nurls = [\"redis://h\"]", "redis.sentinel.service"),
        (
            "[redis]\ntopology = \"cluster\"\nurls = [\"redis://h/1\"]",
            "redis.urls: must name no database but 0",
        ),
        (
            "[redis]\ntopology = \"cluster\"\nurls = [\"redis://h\", \"rediss://i\"]",
            "redis.urls: must all begin",
        ),
        (
            "[redis]\ntopology = \"cluster\"\nurls = [\"redis+unix:///h\"]",
            "redis.urls: must be hosts",
        ),
        ("[cache]\nnot_found_s = 86401", "cache.not_found_s"),
        ("[cache.search]\nif_error_s = 86401", "cache.search.if_error_s"),
        ("[rate_limit]\nreplicas = 0", "rate_limit.replicas"),
        ("[control]\npublic_url = \"keys.example\"", "control.public_url"),
        ("[control]\ndatabase_url = \"mysql://u:pw@h/d\"", "control.database_url"),
        ("[control]\nbind = \"127.0.0.1:8081\"", "control.bind"),
        ("[control]\noperators = [\"\"]", "control.operators"),
        ("[control]\nmax_rate_limit = 0", "control.max_rate_limit: must be 1 or more"),
        ("[control]\nmax_rate_limit = 2147483648", "control.max_rate_limit: must be 2147483647"),
        ("[control]\nmax_keys = 1000001", "control.max_keys: must be 1000000 or less"),
        ("[control]\nmax_keys = -1", "control.max_keys"),
        ("[control]\nscopes = []", "control.scopes: must have at least one scope"),
        ("[control]\nscopes = [\"read\", \"Admin\"]", "control.scopes: must have"),
        ("[control]\nscopes = \"read\"", "control.scopes"),
        ("[control.oidc]\nissuer = \"http://id.example\"", "control.oidc.issuer"),
        ("[control.oidc]\nissuer = \"https://id.example\"", "control.oidc.audience"),
        (
            "[control.oidc]\nissuer = \"https://id.example\"\naudience = \"a\"\nclient_id = \"a\"",
            "control.oidc.audience",
        ),
        ("[control.oidc]\nissuers = \"x\"", "control.oidc.issuers"),
        ("[[control.tokens]]\nuser = \"a\"\nsha256 = \"abc\"", "control.tokens"),
        ("[[control.tokens]]\nuser = \"a\"", "control.tokens"),
        ("[keys]\nusage_every_s = 0", "keys.usage_every_s"),
        ("[keys]\nusage_database_url = \"mysql://u:pw@h/d\"", "keys.usage_database_url: not a"),
    ] {
        let ended = run(config("check", text)).await.failed(1, &[]);
        assert!(ended.stderr.contains(named), "{text}: {ended:?}");
    }
    let ended = run(config("check", "[server\nbind")).await.failed(1, &[]);
    assert!(ended.stderr.contains("registry.toml"), "no TOML: {ended:?}");
    let missing = gene_registry(["config", "check", "--config", "/nowhere/registry.toml"]);
    let ended = run(missing).await.failed(1, &[]);
    assert!(ended.stderr.contains("/nowhere/registry.toml"), "{ended:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn config_check_and_serve_report_all_errors_together() {
    let no_pem = file("no certificate, and no key");
    let text = format!(
        "[server]
        bnid = \"x\"
        idle_timeout_ms = \"soon\"
        [server.tls]
        cert_file = {no_pem:?}
        key_file = \"/nowhere.key\"
        [shed]
        wait_ms = 3000
        [log]
        level = \"info,=,\"
        [upstream]
        tls_ca_file = {no_pem:?}
        url = \"mysql://hunter2@h/d\"
        [control]
        database_url = \"mysql://hunter2@h/d\"
        [control.oidc]
        issuer = \"https://id.example\"
        tls_ca_file = \"/nowhere.pem\""
    );
    let path = file(&text);
    for command in [&["config", "check"][..], &["serve"]] {
        let args = [command, &["--config", path.to_str().unwrap()]].concat();
        let wrong = gene_registry(args)
            .env("GENE_REGISTRY__REDIS__URL", "http://hunter2@h")
            .env("GENE_REGISTRY__KEYS__USAGE_EVERY_S", "0");
        let ended = run(wrong).await.failed(1, &["hunter2"]);
        for named in [
            "server.bnid (",
            "server.idle_timeout_ms (",
            &format!("server.tls: {}", no_pem.display()),
            "server.tls: /nowhere.key",
            "shed.wait_ms: must not be longer than upstream.deadline_ms",
            "log.level: ",
            &format!(
                "upstream.tls_ca_file: {}: the file contains no certificate",
                no_pem.display()
            ),
            "upstream.url: ",
            "control.database_url: ",
            "control.oidc.audience: ",
            "control.oidc.client_id: ",
            "control.oidc.tls_ca_file: /nowhere.pem",
            "redis.url: ",
            "keys.usage_every_s: must be 1 or more",
        ] {
            let is_there = |line: &str| line.trim_start().starts_with(named);
            assert!(ended.stderr.lines().any(is_there), "{named}: {ended:?}");
        }
        assert_eq!(ended.stderr.lines().count(), 15, "nothing else: {ended:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn config_check_names_the_variable_of_an_error() {
    for (variable, value) in [
        ("GENE_REGISTRY__SERVER__BIND", "nowhere"),
        ("GENE_REGISTRY__SERVER__BNID", "127.0.0.1:1"),
        ("GENE_REGISTRY__REDIS__TIMEOUT_MS", "soon"),
    ] {
        let command = gene_registry(["config", "check"]).env(variable, value);
        let ended = run(command).await.failed(1, &[]);
        let key = variable.trim_start_matches("GENE_REGISTRY__").to_lowercase();
        assert!(ended.stderr.contains(&key.replace("__", ".")), "{ended:?}");
        assert!(ended.stderr.contains(variable), "{ended:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn config_print_masks_secrets_and_shows_where_each_value_came_from() {
    let secrets = [
        "s3cret-of-postgres",
        "s3cret-of-redis",
        "s3cret-of-keys",
        "\"00\"",
        "s3cret-of-a-standby",
        "s3cret-of-usage",
    ];
    let path = file("[server]\nmax_connections = 77\nhead_timeout_ms = 88\n");
    let printed = gene_registry(["config", "print", "--config", path.to_str().unwrap()])
        .env("DATABASE_URL", format!("postgres://user:{}@db/registry", secrets[0]))
        .env("CONTROL_DATABASE_URL", format!("postgres://keys:{}@db/registry", secrets[2]))
        .env("USAGE_DATABASE_URL", format!("postgres://usage:{}@db/registry", secrets[5]))
        .env(
            "GENE_REGISTRY__UPSTREAM__READ_URLS",
            format!("[\"postgres://user:{}@standby/registry\"]", secrets[4]),
        )
        .env("GENE_REGISTRY__REDIS__URL", format!("redis://:{}@cache", secrets[1]))
        .env("REDIS_URL", format!("redis://:{}@other", secrets[1]))
        .env("GENE_REGISTRY__REDIS__PASSWORD", secrets[3])
        .env("GENE_REGISTRY__SERVER__HEAD_TIMEOUT_MS", "99")
        .env("GENE_REGISTRY__LOG__LEVEL", "debug");
    let printed = run(printed).await.ok();
    for secret in secrets {
        assert!(!printed.stdout.contains(secret) && !printed.stderr.contains(secret));
    }
    for line in [
        &format!("server.max_connections = 77  # {}", path.display()),
        "server.head_timeout_ms = 99  # GENE_REGISTRY__SERVER__HEAD_TIMEOUT_MS",
        "log.level = \"debug\"  # GENE_REGISTRY__LOG__LEVEL",
        "upstream.url = \"***\"  # DATABASE_URL",
        "upstream.read_urls = \"***\"  # GENE_REGISTRY__UPSTREAM__READ_URLS",
        "control.database_url = \"***\"  # CONTROL_DATABASE_URL",
        "keys.usage_database_url = \"***\"  # USAGE_DATABASE_URL",
        "redis.url = \"***\"  # GENE_REGISTRY__REDIS__URL",
        "redis.password = \"***\"  # GENE_REGISTRY__REDIS__PASSWORD",
        "server.idle_timeout_ms = 75000  # default",
        "cache.search.fresh_s = 30  # default",
    ] {
        assert!(printed.stdout.lines().any(|printed| printed == line), "{line}: {printed:?}");
    }
}
