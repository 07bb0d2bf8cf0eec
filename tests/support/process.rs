//! Child processes that end with the test process at the latest.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::{scratch_folder, watchdog};

/// Waits until the watchdog knows the process, then becomes the program under the same id.
const START_GATE: &str = r#"read -r go && exec "$@" </dev/null"#;

/// The signals that tests send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Signal {
    Stop,
    Cont,
    Term,
    Int,
    Hup,
    Quit,
    Kill,
}

impl Signal {
    const fn name(self) -> &'static str {
        match self {
            Self::Stop => "STOP",
            Self::Cont => "CONT",
            Self::Term => "TERM",
            Self::Int => "INT",
            Self::Hup => "HUP",
            Self::Quit => "QUIT",
            Self::Kill => "KILL",
        }
    }
}

/// A program about to be started.
#[derive(Debug)]
pub(crate) struct Launch {
    name: String,
    program: OsString,
    args: Vec<OsString>,
    envs: Vec<(OsString, Option<OsString>)>,
    stdout: Option<OwnedFd>,
    stderr: Option<OwnedFd>,
    unprivileged: bool,
}

impl Launch {
    /// `name` is for messages and file names.
    pub(crate) fn new(name: &str, program: impl AsRef<OsStr>) -> Self {
        Self {
            name: name.to_owned(),
            program: program.as_ref().to_owned(),
            args: Vec::new(),
            envs: Vec::new(),
            stdout: None,
            stderr: None,
            unprivileged: false,
        }
    }

    pub(crate) fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.args.push(arg.as_ref().to_owned());
        self
    }

    pub(crate) fn args<A: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.args.extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
        self
    }

    pub(crate) fn env(mut self, key: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.envs.push((key.as_ref().to_owned(), Some(value.as_ref().to_owned())));
        self
    }

    pub(crate) fn envs(mut self, envs: &[(String, String)]) -> Self {
        self.envs.extend(envs.iter().map(|(key, value)| (key.into(), Some(value.into()))));
        self
    }

    /// Removes a variable from the program's environment.
    pub(crate) fn env_remove(mut self, key: impl AsRef<OsStr>) -> Self {
        self.envs.push((key.as_ref().to_owned(), None));
        self
    }

    /// Sends standard output to `target` instead of a file.
    pub(crate) fn stdout_to(mut self, target: impl Into<OwnedFd>) -> Self {
        self.stdout = Some(target.into());
        self
    }

    /// Sends standard error to `target` instead of a file.
    pub(crate) fn stderr_to(mut self, target: impl Into<OwnedFd>) -> Self {
        self.stderr = Some(target.into());
        self
    }

    /// Runs the program as [`account`] if the tests run as root.
    pub(crate) const fn unprivileged(mut self) -> Self {
        self.unprivileged = true;
        self
    }

    /// Starts the program. Standard input is empty; outputs go to files unless set otherwise.
    #[track_caller]
    pub(crate) fn start(self) -> Process {
        let folder = scratch_folder(&self.name);
        let (out, err) = (folder.join("stdout"), folder.join("stderr"));
        let mut command = Command::new("sh");
        command.args(["-c", START_GATE, &self.name]).arg(&self.program).args(&self.args);
        for (key, value) in &self.envs {
            match value {
                Some(value) => command.env(key, value),
                None => command.env_remove(key),
            };
        }
        if self.unprivileged {
            run_as_account(&mut command);
        }
        let (out_file, err_file) = (File::create(&out).unwrap(), File::create(&err).unwrap());
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(self.stdout.unwrap_or_else(|| out_file.into()))
            .stderr(self.stderr.unwrap_or_else(|| err_file.into()))
            .process_group(0)
            .spawn()
            .unwrap_or_else(|error| panic!("{}: {error}", self.name));
        let pid = child.id();
        watchdog::watch(pid);
        child.stdin.take().unwrap().write_all(b"go\n").unwrap();
        Process { name: self.name, pid, out, err, child: Mutex::new(child) }
    }
}

/// A running program. Dropping it kills it and all its descendants.
#[derive(Debug)]
pub(crate) struct Process {
    name: String,
    pid: u32,
    out: PathBuf,
    err: PathBuf,
    child: Mutex<Child>,
}

impl Process {
    pub(crate) const fn pid(&self) -> u32 {
        self.pid
    }

    /// What it has written to standard output so far.
    pub(crate) fn stdout(&self) -> String {
        read_lossy(&self.out)
    }

    /// What it has written to standard error so far.
    pub(crate) fn stderr(&self) -> String {
        read_lossy(&self.err)
    }

    /// Both outputs, for the message of a failure.
    pub(crate) fn report(&self) -> String {
        let Self { name, pid, .. } = self;
        format!("{name} ({pid})\n--- stdout\n{}--- stderr\n{}---", self.stdout(), self.stderr())
    }

    pub(crate) fn is_running(&self) -> bool {
        self.exit_status().is_none()
    }

    /// Its exit status, if it has ended.
    pub(crate) fn exit_status(&self) -> Option<ExitStatus> {
        self.reap(&mut self.child())
    }

    /// Sends a signal to the process only; does nothing once it has ended.
    pub(crate) fn signal(&self, signal: Signal) {
        let mut child = self.child();
        if self.reap(&mut child).is_none() {
            send(signal, &[self.pid]);
        }
    }

    /// Sends a signal to the process, then to all its descendants.
    pub(crate) fn signal_tree(&self, signal: Signal) {
        let mut child = self.child();
        if self.reap(&mut child).is_none() {
            // The process first: a stopped one starts no more children.
            if signal == Signal::Stop {
                send(signal, &[self.pid]);
            }
            send(signal, &tree(self.pid));
        }
    }

    /// Waits for its end; `None` if it still runs after `bound`.
    pub(crate) async fn exited_within(&self, bound: Duration) -> Option<ExitStatus> {
        let end = Instant::now() + bound;
        loop {
            match self.exit_status() {
                None if Instant::now() < end => tokio::time::sleep(Duration::from_millis(5)).await,
                status => return status,
            }
        }
    }

    /// Waits for its end; panics with its output if it still runs after `bound`.
    pub(crate) async fn wait_exit(&self, bound: Duration) -> ExitStatus {
        match self.exited_within(bound).await {
            Some(status) => status,
            None => panic!("still running after {bound:?}: {}", self.report()),
        }
    }

    fn child(&self) -> MutexGuard<'_, Child> {
        self.child.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn reap(&self, child: &mut Child) -> Option<ExitStatus> {
        let status = child.try_wait().unwrap();
        if status.is_some() {
            watchdog::forget(self.pid);
        }
        status
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.signal_tree(Signal::Kill);
        // A killed process ends at once.
        drop(self.child().wait());
        watchdog::forget(self.pid);
    }
}

/// The process and all its descendants, parents first.
pub(crate) fn tree(pid: u32) -> Vec<u32> {
    let parents: Vec<(u32, u32)> = std::fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter_map(|pid| Some((pid, stat(pid)?.1)))
        .collect();
    let mut found = vec![pid];
    let mut next = 0;
    while next < found.len() {
        let parent = found[next];
        found.extend(parents.iter().filter(|(_, of)| *of == parent).map(|(pid, _)| *pid));
        next += 1;
    }
    found
}

/// Whether the process exists and is no zombie.
pub(crate) fn is_alive(pid: u32) -> bool {
    stat(pid).is_some_and(|(state, _)| state != 'Z' && state != 'X')
}

/// State and parent of a process.
fn stat(pid: u32) -> Option<(char, u32)> {
    let line = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = line.rsplit_once(") ")?.1.split(' ');
    Some((fields.next()?.chars().next()?, fields.next()?.parse().ok()?))
}

/// Sends a signal to processes that this test process has started.
pub(crate) fn send(signal: Signal, pids: &[u32]) {
    let pids = pids.iter().map(u32::to_string);
    // The shell's own `kill`; an already ended process is no error.
    let script = r#"signal=$1; shift; kill -"$signal" "$@" 2>/dev/null"#;
    Command::new("sh").args(["-c", script, "kill", signal.name()]).args(pids).status().unwrap();
}

fn read_lossy(path: &Path) -> String {
    let mut bytes = Vec::new();
    File::open(path).unwrap().read_to_end(&mut bytes).unwrap();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The user and group for programs that refuse to run as root; `None` if the tests do not run as
/// root.
pub(crate) fn account() -> Option<(u32, u32)> {
    static ACCOUNT: LazyLock<Option<(u32, u32)>> = LazyLock::new(|| {
        let id = |args: &[&str]| {
            let output = Command::new("id").args(args).output().unwrap();
            String::from_utf8(output.stdout).unwrap().trim().parse::<u32>().ok()
        };
        if id(&["-u"]) != Some(0) {
            return None;
        }
        let of = |user| Some((id(&["-u", user])?, id(&["-g", user])?));
        Some(of("postgres").or_else(|| of("nobody")).expect("a user `postgres` or `nobody`"))
    });
    *ACCOUNT
}

/// Makes the command run as [`account`].
pub(crate) fn run_as_account(command: &mut Command) {
    if let Some((user, group)) = account() {
        command.uid(user).gid(group);
    }
}

/// Makes [`account`] the owner of a folder or file.
pub(crate) fn give_to_account(path: &Path) {
    if let Some((user, group)) = account() {
        std::os::unix::fs::chown(path, Some(user), Some(group)).unwrap();
    }
}

/// The newest program with this name: in Debian's versioned folders, `PATH`, the usual places.
pub(crate) fn find_program(name: &str) -> PathBuf {
    let mut versions: Vec<(u32, PathBuf)> = std::fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .filter_map(|entry| {
            let path = entry.ok()?.path();
            Some((path.file_name()?.to_str()?.parse().ok()?, path.join("bin")))
        })
        .collect();
    versions.sort();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let usual = ["/usr/local/bin", "/usr/local/sbin", "/usr/bin", "/usr/sbin"].map(PathBuf::from);
    std::env::split_paths(&path)
        .chain(versions.into_iter().rev().map(|(_, folder)| folder))
        .chain(usual)
        .map(|folder| folder.join(name))
        .find(|program| program.is_file())
        .unwrap_or_else(|| panic!("`{name}` is not installed; `tests/run` installs it"))
}
