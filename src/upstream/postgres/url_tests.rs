//! Tests of the parsing of URLs, and that errors never quote them.

use tokio_postgres::config::{Host, SslMode};

use super::*;

fn read(url: &str) -> Result<ConnectionTarget, String> {
    parse(&SecretString::from(url.to_owned()))
}

fn only(url: &str) -> Config {
    let mut target = read(url).expect("a URL");
    assert_eq!(target.hosts.len(), 1, "{url}");
    target.hosts.remove(0)
}

#[test]
fn passwords_with_special_characters_are_percent_encoded() {
    let config = only("postgres://u%40x:%40%3A%2F%23%25%3F%3D@db.example:6432/r");
    assert_eq!(config.get_password(), Some(b"@:/#%?=".as_slice()));
    assert_eq!(config.get_user(), Some("u@x"));
    assert_eq!(config.get_ports(), [6432]);
    assert_eq!(config.get_hosts(), [Host::Tcp("db.example".to_owned())]);
}

#[test]
fn sockets_and_ipv6_addresses_are_hosts() {
    let config = only("postgres:///db?host=/run/postgresql&user=u");
    assert_eq!(config.get_hosts(), [Host::Unix("/run/postgresql".into())]);
    assert_eq!(config.get_dbname(), Some("db"));
    let config = only("postgres://u@%2Frun%2Fpostgresql/db");
    assert_eq!(config.get_hosts(), [Host::Unix("/run/postgresql".into())]);
    let config = only("postgres://u@[::1]:5432/db");
    assert_eq!(config.get_hosts(), [Host::Tcp("::1".to_owned())]);
}

#[test]
fn each_host_has_its_own_port_and_everything_else() {
    let url = "postgres://u:p%40@a:1,[::1],c:3/db?application_name=x&options=-c%20a%3Db";
    let target = read(url).expect("a URL");
    let hosts: Vec<_> = target
        .hosts
        .iter()
        .map(|host| (host.get_hosts().to_vec(), host.get_ports().to_vec()))
        .collect();
    let tcp = |name: &str| vec![Host::Tcp(name.to_owned())];
    assert_eq!(hosts, [(tcp("a"), vec![1]), (tcp("::1"), vec![5432]), (tcp("c"), vec![3])]);
    for host in &target.hosts {
        assert_eq!(host.get_password(), Some(b"p@".as_slice()));
        assert_eq!(host.get_user(), Some("u"));
        assert_eq!(host.get_dbname(), Some("db"));
        assert_eq!(host.get_application_name(), Some("x"));
        assert_eq!(host.get_options(), Some("-c a=b"));
    }
    let target =
        read("postgres:///db?user=u&host=a,b&hostaddr=10.0.0.1,10.0.0.2&port=7").expect("ok");
    assert_eq!(target.hosts[1].get_hosts(), tcp("b"));
    assert_eq!(target.hosts[1].get_hostaddrs().len(), 1);
    assert_eq!(target.hosts[1].get_ports(), [7]);
}

#[test]
fn every_target_session_attrs_value_of_libpq_is_supported() {
    for (value, role) in [
        ("any", HostRole::Any),
        ("primary", HostRole::Primary),
        ("read-write", HostRole::Primary),
        ("standby", HostRole::Standby),
        ("read-only", HostRole::Standby),
        ("prefer-standby", HostRole::PreferStandby),
    ] {
        let url = format!("postgres://u@a,b/db?target_session_attrs={value}&sslmode=disable");
        let target = read(&url).expect("a URL");
        assert_eq!((target.role, target.hosts.len(), target.shuffled), (role, 2, false));
    }
    assert_eq!(read("postgres://u@a,b/db").expect("a URL").role, HostRole::Any);
    assert!(read("postgres://u@a,b/db?load_balance_hosts=random").expect("a URL").shuffled);
    let error = read("postgres://u@a/db?target_session_attrs=hunter2").expect_err("no such thing");
    assert!(error.contains("prefer-standby") && !error.contains("hunter2"), "{error}");
}

#[test]
fn verifying_modes_require_tls_and_only_verify_ca_ignores_the_name() {
    for (mode, any_name) in [("require", false), ("verify-ca", true), ("verify-full", false)] {
        let target = read(&format!("postgres://u@h/db?sslmode={mode}&user=u")).expect("a URL");
        assert_eq!(target.hosts[0].get_ssl_mode(), SslMode::Require, "{mode}");
        assert_eq!(target.any_name, any_name, "{mode}");
    }
    assert_eq!(only("postgres://u@h/db?sslmode=disable").get_ssl_mode(), SslMode::Disable);
    assert_eq!(only("postgres://u@h/db").get_ssl_mode(), SslMode::Prefer);
    let error = read("postgres://u@h/db?sslmode=allow").expect_err("not offered");
    assert!(error.contains("sslmode; use disable, prefer"), "{error}");
}

#[test]
fn no_part_of_a_password_with_an_at_sign_is_mistaken_for_a_host() {
    for (wrong, remedy) in [
        ("postgres://u:pa@hunter2@host/db", "%40"),
        ("postgres://u:pa@hunter2/x@host/db", "%40"),
        ("postgres://u:p/a@hunter2@host/db", "%40"),
        ("postgres://u:p?a@hunter2@host/db", "%40"),
        ("postgres://u:pa@hunter2@a,b:1/db?sslmode=require", "%40"),
        ("postgres:///db?host=a&user=u&password=pa@hunter2", "%40"),
        ("postgres://host/db?password=pa@hunter2", "%40"),
    ] {
        let error = read(wrong).expect_err(wrong);
        assert!(error.contains(remedy) && !error.contains("hunter2"), "{wrong}: {error}");
    }
    let config = only("postgres://u:p?a/ss@host/db?application_name=a@b");
    assert_eq!(config.get_password(), Some(b"p?a/ss".as_slice()));
    assert_eq!(config.get_hosts(), [Host::Tcp("host".to_owned())]);
}

#[test]
fn errors_never_quote_the_url() {
    for wrong in [
        "postgres://user:pa@ss?hunter=hunter2@host/db",
        "postgres://user:hunter2@host:notaport/db",
        "postgres://user:hunter2@host/db?hunter2=hunter2",
        "postgres://user:hunter2@host/db?sslmode=hunter2",
        "postgres://user:hunter2@host/db?target_session_attrs=hunter2",
        "postgres://user:hunter2@a:1,b:2,c:3/db?port=hunter2",
        "postgres://user:hunter2@/db?host=a,b,c&port=1,2",
        "mysql://user:hunter2@host/db",
        "hunter2",
        "postgres:///hunter2",
        "postgres://user:hunter2@[::1/db",
    ] {
        let error = read(wrong).expect_err(wrong);
        assert!(!error.contains("hunter"), "{wrong}: {error}");
    }
}
