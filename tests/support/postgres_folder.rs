//! The data folder of a Postgres server, with its configuration.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use tokio::sync::OnceCell;

use super::postgres::SUPERUSER;
use super::process::{find_program, give_to_account, run_as_account};
use super::scratch_folder;

/// Shared memory is in files, since `/dev/shm` is small or not writable in many containers.
const BASICS: &str = "\
listen_addresses = '127.0.0.1'
fsync = off
full_page_writes = off
shared_buffers = '64MB'
max_wal_size = '512MB'
dynamic_shared_memory_type = mmap
log_line_prefix = '%m [%p] %u@%d '
";

/// How a server differs from the default one.
#[derive(Debug, Clone)]
pub(crate) struct PostgresOptions {
    pub max_connections: u32,
    /// Lines of `postgresql.conf`, after the harness's own.
    pub conf: Vec<String>,
    /// Lines of `pg_hba.conf`, before the last ones, which trust everybody.
    pub hba: Vec<String>,
    /// Certificate and key (PEM); enables TLS.
    pub tls: Option<(PathBuf, PathBuf)>,
    /// Environment variables of the server.
    pub env: Vec<(String, String)>,
}

impl Default for PostgresOptions {
    fn default() -> Self {
        Self { max_connections: 200, conf: Vec::new(), hba: Vec::new(), tls: None, env: Vec::new() }
    }
}

/// A fresh data folder by `initdb`, created once in this process.
pub(super) async fn template_folder() -> &'static PathBuf {
    static TEMPLATE: OnceCell<PathBuf> = OnceCell::const_new();
    TEMPLATE
        .get_or_init(|| async {
            let folder = scratch_folder("initdb");
            give_to_account(&folder);
            let data = folder.join("data");
            let mut initdb = Command::new(postgres_program("initdb"));
            initdb.args(["-U", SUPERUSER, "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8"]);
            initdb.args(["--no-sync", "-D"]).arg(&data);
            run_as_account(&mut initdb);
            run(&mut initdb);
            data
        })
        .await
}

/// Programs of one version, even if `PATH` has links to only some of them.
pub(crate) fn postgres_program(name: &str) -> PathBuf {
    let initdb = find_program("initdb").canonicalize().unwrap();
    initdb.with_file_name(name)
}

pub(super) fn configure(folder: &Path, port: u16, options: &PostgresOptions) {
    let mut conf =
        format!("{BASICS}port = {port}\nmax_connections = {}\n", options.max_connections);
    writeln!(conf, "unix_socket_directories = '{}'", folder.display()).unwrap();
    if let Some((cert, key)) = &options.tls {
        for (source, name) in [(cert, "server.crt"), (key, "server.key")] {
            let target = folder.join("data").join(name);
            run(Command::new("install").args(["-m", "600"]).arg(source).arg(&target));
            give_to_account(&target);
        }
        conf.push_str("ssl = on\n");
    }
    conf.push_str(&options.conf.join("\n"));
    conf.push('\n');
    let mut hba = options.hba.join("\n");
    hba.push_str("\nlocal all all trust\nhost all all all trust\n");
    std::fs::write(folder.join("data/postgresql.conf"), conf).unwrap();
    std::fs::write(folder.join("data/pg_hba.conf"), hba).unwrap();
}

pub(super) fn run(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(
        output.status.success(),
        "{command:?}: {}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}
