//! Ends every child process with the test process. A small shell waits for the end of a pipe that
//! the test process holds: however that process ends, the shell then ends the children and their
//! descendants (stopped ones too), and removes the scratch folder.

use std::fs::Permissions;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{LazyLock, Mutex};

/// `$1` is the scratch folder; standard input says `add PID` and `del PID`.
const SCRIPT: &str = r#"
trap '' INT TERM HUP
folder=$1 children=
while read -r verb pid; do
    case $verb in
        add) children="$children $pid" ;;
        del) rest=
             for child in $children; do [ "$child" = "$pid" ] || rest="$rest $child"; done
             children=$rest ;;
    esac
done

descendants() { # the pids in $1 and everything below them
    found=$1 before=
    while [ "$found" != "$before" ]; do
        before=$found
        for stat in /proc/[0-9]*/stat; do
            read -r line 2>/dev/null <"$stat" || continue
            pid=${line%% *}
            set -- ${line##*) }
            case " $found " in *" $pid "*) continue ;; esac
            case " $found " in *" $2 "*) found="$found $pid" ;; esac
        done
    done
    echo "$found"
}

if [ -n "$children" ]; then
    all=$(descendants "$children")
    kill -CONT $all 2>/dev/null
    kill -INT $children 2>/dev/null
    for turn in 1 2 3 4 5 6 7 8 9 10; do
        kill -0 $all 2>/dev/null || break
        sleep 0.1
    done
    kill -KILL $all 2>/dev/null
fi
rm -rf "$folder"
"#;

/// One for the whole test process.
struct Watchdog {
    scratch: PathBuf,
    shell: Mutex<Child>,
}

static WATCHDOG: LazyLock<Watchdog> = LazyLock::new(|| {
    let scratch = tempfile::Builder::new().prefix("gene-registry-test-").tempdir().unwrap().keep();
    // Servers that run under another account need access to their folders.
    std::fs::set_permissions(&scratch, Permissions::from_mode(0o755)).unwrap();
    let shell = Command::new("sh")
        .args(["-c", SCRIPT, "watchdog"])
        .arg(&scratch)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .unwrap();
    Watchdog { scratch, shell: Mutex::new(shell) }
});

fn tell(line: &str) {
    let mut shell = WATCHDOG.shell.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    shell.stdin.as_mut().unwrap().write_all(line.as_bytes()).unwrap();
}

/// The folder for everything that servers write.
pub(super) fn scratch() -> &'static Path {
    &WATCHDOG.scratch
}

/// From now on the process ends with the test process.
pub(super) fn watch(pid: u32) {
    tell(&format!("add {pid}\n"));
}

/// The process is about to be reaped: its id may be reused.
pub(super) fn forget(pid: u32) {
    tell(&format!("del {pid}\n"));
}
