//! The wall clock of a program, which a test sets while the program runs: by libfaketime. Clocks
//! of elapsed time (`CLOCK_MONOTONIC`, `CLOCK_BOOTTIME`) stay true.

use std::fs::{Permissions, set_permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use super::process::give_to_account;
use super::scratch_folder;

/// A wall clock for any number of programs.
#[derive(Debug)]
pub(crate) struct FakeClock {
    folder: PathBuf,
}

impl FakeClock {
    /// A clock that is right.
    pub(crate) fn new() -> Self {
        let folder = scratch_folder("clock");
        give_to_account(&folder);
        set_permissions(&folder, Permissions::from_mode(0o755)).unwrap();
        let clock = Self { folder };
        clock.set_ahead(0);
        clock
    }

    /// Sets the clock to `seconds` ahead of the true time; negative values are behind.
    pub(crate) fn set_ahead(&self, seconds: i64) {
        let (next, current) = (self.folder.join("next"), self.folder.join("offset"));
        std::fs::write(&next, format!("{seconds:+}\n")).unwrap();
        // In one step: programs read the file at any time.
        std::fs::rename(next, current).unwrap();
    }

    /// The environment of a program that has this clock.
    pub(crate) fn env(&self) -> Vec<(String, String)> {
        let file = self.folder.join("offset").display().to_string();
        let library = library().display().to_string();
        [
            ("LD_PRELOAD", library.as_str()),
            ("FAKETIME_TIMESTAMP_FILE", file.as_str()),
            ("FAKETIME_NO_CACHE", "1"),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
            ("FAKETIME_DISABLE_SHM", "1"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into()
    }
}

/// Debian has it in the folder of its architecture.
fn library() -> PathBuf {
    let folders = ["/usr/lib", "/usr/lib64", "/usr/local/lib"].map(PathBuf::from);
    let of_architecture = std::fs::read_dir("/usr/lib").into_iter().flatten();
    folders
        .into_iter()
        .chain(of_architecture.filter_map(|entry| Some(entry.ok()?.path())))
        .map(|folder| folder.join("faketime/libfaketime.so.1"))
        .find(|library| library.is_file())
        .expect("libfaketime is not installed; `tests/run` installs it")
}
