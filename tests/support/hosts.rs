//! Host names for one process: an `/etc/hosts` of its own, in a mount namespace of its own.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use super::process::Launch;
use super::scratch_folder;

/// Mounts the file `$1` over the machine's, then runs the remaining arguments.
const MOUNT_SCRIPT: &str = r#"mount --bind "$1" /etc/hosts && shift && exec "$@""#;

/// The hosts file. It can be changed while a process uses it.
pub(crate) struct Hosts {
    file: PathBuf,
}

impl Hosts {
    /// A file that resolves `name` to `address`.
    pub(crate) fn new(name: &str, address: &str) -> Self {
        let hosts = Self { file: scratch_folder("hosts").join("hosts") };
        hosts.set(name, address);
        hosts
    }

    /// From now on `name` resolves to `address`. Writes in place, since the file itself is mounted.
    pub(crate) fn set(&self, name: &str, address: &str) {
        std::fs::write(&self.file, format!("127.0.0.1 localhost\n{address} {name}\n")).unwrap();
    }

    /// Whether this machine allows such a namespace, and resolves `name` by the file.
    pub(crate) fn are_seen(&self, name: &str) -> bool {
        let mut command = Command::new("unshare");
        command.args(self.words()).args(["getent", "hosts", name]);
        let ended =
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
        ended.is_ok_and(|status| status.success())
    }

    /// A program that uses it, not started.
    pub(crate) fn launch(&self, name: &str, program: impl AsRef<OsStr>) -> Launch {
        Launch::new(name, "unshare").args(self.words()).arg(program)
    }

    fn words(&self) -> [&OsStr; 7] {
        let [user, mount, shell] = ["--map-root-user", "--mount", "sh"].map(OsStr::new);
        let [command, script, zeroth] = ["-c", MOUNT_SCRIPT, "sh"].map(OsStr::new);
        [user, mount, shell, command, script, zeroth, self.file.as_os_str()]
    }
}
