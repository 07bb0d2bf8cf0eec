//! Tests of whole configuration files.

use std::io::Write;

use secrecy::ExposeSecret;

use super::LoadedConfig;

fn read(text: &str) -> Result<LoadedConfig, String> {
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    file.write_all(text.as_bytes()).expect("written");
    LoadedConfig::read(Some(file.path())).map_err(|error| error.to_string())
}

#[test]
fn the_defaults_alone_are_valid() {
    let loaded = read("").expect("the defaults");
    assert_eq!(loaded.config.server.bind.port(), 8080);
    assert!(loaded.config.redis.url.is_none());
    let values = loaded.effective();
    let bind = values.iter().find(|value| value.key == "server.bind").expect("server.bind");
    assert_eq!(bind.value, "\"0.0.0.0:8080\"");
    assert_eq!(bind.source, "default");
}

#[test]
fn an_invalid_file_is_refused_and_the_error_names_the_key() {
    for (text, expected) in [
        ("[server]\nbnid = \"x\"", "server.bnid"),
        ("[sever]\nbind = \"127.0.0.1:1\"", "sever"),
        ("[server]\nbind = \"nowhere\"", "server.bind"),
        ("[redis]\ntimeout_ms = \"soon\"", "redis.timeout_ms"),
        ("[redis]\ntimeout_ms = 0", "redis.timeout_ms: must be 1 or more"),
        ("[server]\nhsts_max_age_s = -1", "server.hsts_max_age_s"),
        (
            "[server]\nhsts_max_age_s = 315360001",
            "server.hsts_max_age_s: must be 315360000 or less",
        ),
        ("[redis]\nmax_bytes = 0", "redis.max_bytes: must be 1 or more"),
        ("[redis]\ntopology = \"ring\"", "redis.topology"),
        ("[redis]\nurls = [\"redis://h\"]", "redis.urls: is not for redis.topology = \"single\""),
        ("[redis]\ntopology = \"cluster\"", "redis.urls: must be set too"),
        ("[redis]\ntopology = \"cluster\"\nurl = \"redis://h\"", "redis.url: is not for"),
        ("[redis]\ntopology = \"cluster\"\nprefix = \"{a}\"", "redis.prefix: must not"),
        ("[redis]\ntopology = \"sentinel\"", "redis.sentinel.service: must be set too"),
        ("[redis.sentinel]\nservice = \"a\"", "redis.sentinel.service: is only for"),
        ("[redis.sentinel]\npassword = \"a\"", "redis.sentinel.password: is only for"),
        ("[redis]\nusername = \"a\"", "redis.password: must be set too"),
        ("[rate_limit]\nwithout_redis = \"hope\"", "rate_limit.without_redis"),
        ("[cache.search]\nif_error_s = 10", "cache.search.if_error_s"),
        ("[upstream]\ndeadline_ms = 10", "upstream.deadline_ms"),
        ("[server]\npublic_url = \"api.example\"", "server.public_url"),
        ("[server.tls]\ncert_file = \"a.pem\"", "server.tls.key_file: must be set too"),
        ("[server.tls]\nkey_file = \"a.pem\"", "server.tls.cert_file: must be set too"),
        ("[server.cors]\norigins = [\"app.example\"]", "server.cors.origins: must"),
        ("[server]\nrequest_timeout_ms = 2000", "server.request_timeout_ms: must be longer"),
        ("[shed]\nmax_misses = 0", "shed.max_misses: must be 1 or more"),
        ("[shed]\nwait_ms = 2001", "shed.wait_ms: must not be longer than upstream.deadline_ms"),
        ("[server.tls]\ncert_file = \"\"\nkey_file = \"\"", "server.tls.key_file: must name a PEM"),
        ("[shed]\nmax_misses = 16", "shed.max_misses: must be less than upstream.pool_size"),
    ] {
        let error = read(text).expect_err(text);
        assert!(error.contains(expected), "{text}: {error}");
    }
}

const INVALID: &str = r#"
        sever = 1
        [server]
        bnid = "x"
        bind = "nowhere"
        request_timeout_ms = 1
        trusted_proxies = ["10.0.0.0/8", "x", "10.0.0.0/99", "::1", "y"]
        [server.tls]
        cert_file = 5
        key_file = "key.pem"
        [upstream]
        deadline_ms = "soon"
        pool_size = 0
        url = ["hunter2"]
        [redis]
        prefix = ""
        [control]
        bind = "127.0.0.1:1"
        [[control.tokens]]
        user = "a"
        sha256 = "hunter2"
        [[control.tokens]]
        user = "b"
        [cache.search]
        fresh_s = 90000
    "#;

#[test]
fn all_errors_are_reported_at_once_without_their_consequences() {
    let error = read(INVALID).expect_err("errors");
    let mut named: Vec<_> = error
        .lines()
        .skip(1)
        .map(|line| line.trim().split([' ', ':']).next().expect("a key"))
        .collect();
    named.sort_unstable();
    let expected = [
        "cache.search.if_error_s",
        "control.tokens.0.sha256",
        "control.tokens.1",
        "redis.prefix",
        "server.bind",
        "server.bnid",
        "server.tls.cert_file",
        "server.trusted_proxies.1",
        "server.trusted_proxies.2",
        "server.trusted_proxies.4",
        "sever",
        "upstream.deadline_ms",
        "upstream.pool_size",
        "upstream.url",
    ];
    assert_eq!(named, expected, "{error}");
    assert!(!error.contains("hunter2"), "{error}");
}

#[test]
fn secrets_are_masked() {
    let loaded = read("[upstream]\nurl = \"postgres://u:hunter2@h/d\"").expect("a config");
    let values = loaded.effective();
    let url = values.iter().find(|value| value.key == "upstream.url").expect("upstream.url");
    assert_eq!(url.value, "\"***\"");
    assert!(url.source.contains("tmp") || url.source.contains('/'), "{}", url.source);
    assert!(!format!("{:?}", loaded.config).contains("hunter2"));
    let error = read("[upstream]\nurl = [\"hunter2\"]").expect_err("no URL");
    assert!(error.contains("upstream.url") && !error.contains("hunter2"), "{error}");
}

/// The values of all secrets.
fn secrets_of(config: &super::Config) -> Vec<String> {
    let (upstream, redis) = (&config.upstream, &config.redis);
    let single = [
        &upstream.url,
        &redis.url,
        &redis.password,
        &redis.sentinel.password,
        &config.control.database_url,
        &config.keys.usage_database_url,
    ];
    let listed = upstream.read_urls.iter().chain(&redis.urls);
    let all = single.into_iter().flatten().chain(listed);
    all.map(|secret| secret.expose_secret().to_owned()).collect()
}

#[test]
fn line_breaks_at_the_end_of_secrets_are_removed() {
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    file.write_all(b"a\n\nb \r\n").expect("written");
    let path = file.path();
    let text = format!(
        "upstream.url = \"u\\n\"\nupstream.read_urls_file = {path:?}\n
        redis.topology = \"sentinel\"\nredis.urls = [\"c\\r\\n\", \"\\n\"]\nredis.password = \"p \\r\\n\\n\"
        redis.sentinel = {{service = \"s\", password = \"q\\nr\\n\"}}
        control.database_url = \"k\\n\"\nkeys.usage_database_url = \"\\r\\n\""
    );
    let config = read(&text).expect("a configuration").config;
    assert_eq!(secrets_of(&config), ["u", "p ", "q\nr", "k", "a", "b ", "c"]);
}
