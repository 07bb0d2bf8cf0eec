//! What names mean to one process: an `/etc/hosts` of its own, in a mount namespace of its own.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use super::process::Launch;
use super::scratch_folder;

/// Puts the file in `$1` in the place of the machine's, for the rest of the words.
const REPLACE: &str = r#"mount --bind "$1" /etc/hosts && shift && exec "$@""#;

/// The file. What it says can be changed while a process sees it.
pub(crate) struct Hosts {
    file: PathBuf,
}

impl Hosts {
    /// `name` means `address`.
    pub(crate) fn new(name: &str, address: &str) -> Self {
        let hosts = Self { file: scratch_folder("hosts").join("hosts") };
        hosts.set(name, address);
        hosts
    }

    /// From now on `name` means `address`. The file stays the same one, for it is what is mounted.
    pub(crate) fn set(&self, name: &str, address: &str) {
        std::fs::write(&self.file, format!("127.0.0.1 localhost\n{address} {name}\n")).unwrap();
    }

    /// Whether this machine lets a process have it, and looks into it for `name`.
    pub(crate) fn are_seen(&self, name: &str) -> bool {
        let mut looks = Command::new("unshare");
        looks.args(self.words()).args(["getent", "hosts", name]);
        let ended = looks.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
        ended.is_ok_and(|status| status.success())
    }

    /// Starts a program that sees it.
    pub(crate) fn launch(&self, name: &str, program: impl AsRef<OsStr>) -> Launch {
        Launch::new(name, "unshare").args(self.words()).arg(program)
    }

    fn words(&self) -> [&OsStr; 7] {
        let [user, mount, shell] = ["--map-root-user", "--mount", "sh"].map(OsStr::new);
        let [command, script, zeroth] = ["-c", REPLACE, "sh"].map(OsStr::new);
        [user, mount, shell, command, script, zeroth, self.file.as_os_str()]
    }
}
