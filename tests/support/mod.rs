//! The test support: real servers, a proxy that misbehaves on demand, and waiting with a bound.
//! Every server is a child process that cannot outlive the test process.
//!
//! With `TEST_DATABASE_URL` or `TEST_REDIS_URL` set, those servers are the shared ones; tests that
//! break a server begin with [`need_own_servers!`] and are then listed as not run.

pub(crate) mod authority;
pub(crate) mod binary;
pub(crate) mod control;
pub(crate) mod database;
pub(crate) mod document;
pub(crate) mod fake_clock;
pub(crate) mod fleet;
pub(crate) mod flood;
pub(crate) mod frames;
pub(crate) mod front_proxy;
pub(crate) mod haproxy;
pub(crate) mod hosts;
pub(crate) mod issuer;
pub(crate) mod jwt;
pub(crate) mod limiters;
pub(crate) mod pgbouncer;
pub(crate) mod pipes;
pub(crate) mod postgres;
mod postgres_folder;
pub(crate) mod probe;
pub(crate) mod process;
pub(crate) mod prometheus;
pub(crate) mod proxy;
pub(crate) mod random;
pub(crate) mod raw;
pub(crate) mod redis;
pub(crate) mod redis_cluster;
pub(crate) mod redis_sentinel;
pub(crate) mod replica;
pub(crate) mod standby;
pub(crate) mod traffic;
pub(crate) mod wait;
mod watchdog;

use std::collections::HashSet;
use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex};

use ::redis as redis_crate;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The external server that an environment variable names, if any.
pub(crate) fn external(variable: &str) -> Option<String> {
    std::env::var(variable).ok().filter(|url| !url.is_empty())
}

/// Whether tests may stop, stall and restart servers: not if the servers are external.
pub(crate) fn faults_available() -> bool {
    external("TEST_DATABASE_URL").is_none() && external("TEST_REDIS_URL").is_none()
}

/// Adds a test and the reason to the list of tests not run, which `tests/run` prints at its end.
pub(crate) fn record_not_run(test: &str) {
    eprintln!("not run: {test}");
    if let Some(list) = std::env::var_os("TESTS_NOT_RUN") {
        let mut file = OpenOptions::new().append(true).create(true).open(&list).unwrap();
        file.write_all(format!("{test}\n").as_bytes()).unwrap();
    }
}

/// Ends a test and lists it as not run if it may not break servers. Must be its first line.
macro_rules! need_own_servers {
    () => {
        if !$crate::support::faults_available() {
            fn here() {}
            let test = $crate::support::test_name(&here);
            $crate::support::record_not_run(&format!("{test}: needs servers of its own"));
            return;
        }
    };
}
pub(crate) use need_own_servers;

/// The path of the test that defines the function `here`.
pub(crate) fn test_name<F: Fn()>(_here: &F) -> &'static str {
    let path = std::any::type_name::<F>();
    path.trim_end_matches("::here").trim_end_matches("::{{closure}}")
}

/// `length` random bytes as hex digits.
pub(crate) fn random_hex(length: usize) -> String {
    let mut bytes = vec![0; length];
    getrandom::fill(&mut bytes).unwrap();
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}

/// A free port on 127.0.0.1 below the range of outgoing ports, so that a server can be restarted on
/// it; never returned twice in this process.
pub(crate) fn free_port() -> u16 {
    static GIVEN: LazyLock<Mutex<HashSet<u16>>> = LazyLock::new(Mutex::default);
    let mut given = GIVEN.lock().unwrap();
    loop {
        let mut random = [0; 2];
        getrandom::fill(&mut random).unwrap();
        let port = 20_000 + u16::from_le_bytes(random) % 12_000;
        if !given.contains(&port) && TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            given.insert(port);
            return port;
        }
    }
}

/// An empty folder for one server, removed when the test process has ended.
pub(crate) fn scratch_folder(name: &str) -> PathBuf {
    let folder = watchdog::scratch().join(format!("{name}-{}", random_hex(4)));
    std::fs::create_dir(&folder).unwrap();
    folder
}

/// Raises this process's limit of open files to this number, if it may.
pub(crate) fn raise_file_limit(files: u64) -> bool {
    let limits = getrlimit(Resource::Nofile);
    if limits.current.is_none_or(|soft| soft >= files) {
        return true;
    }
    let raised = Rlimit { current: Some(files), maximum: limits.maximum };
    limits.maximum.is_none_or(|hard| hard >= files) && setrlimit(Resource::Nofile, raised).is_ok()
}

/// Replaces a file atomically.
pub(crate) fn replace_file(path: &Path, bytes: &[u8]) {
    let beside = path.with_extension("new");
    std::fs::write(&beside, bytes).unwrap();
    std::fs::rename(beside, path).unwrap();
}

/// The Redis client's error type: the module `redis` here shadows the crate.
pub(crate) type RedisError = redis_crate::RedisError;
