//! The wall clock of a program, which a test sets while the program runs: by a preloaded library,
//! built by the C compiler that Rust links with. Clocks of elapsed time (`CLOCK_MONOTONIC`,
//! `CLOCK_BOOTTIME`) stay true.
//!
//! Not libfaketime: it needs a semaphore and shared memory in `/dev/shm` for each process, which
//! stay there when the process is killed.

use std::fs::{Permissions, set_permissions};
use std::os::unix::fs::{FileExt as _, PermissionsExt as _};
use std::path::PathBuf;
use std::process::Command;
use std::sync::LazyLock;

use super::scratch_folder;

const SOURCE: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile long long right = 0, *ahead = &right;

__attribute__((constructor)) static void find_clock(void) {
    const char *path = getenv("FAKE_CLOCK");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    void *found = mmap(0, sizeof *ahead, PROT_READ, MAP_SHARED, file, 0);
    if (found == MAP_FAILED) abort();
    close(file);
    ahead = found;
}

int clock_gettime(clockid_t clock, struct timespec *time) {
    int result = (int) syscall(SYS_clock_gettime, clock, time);
    if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        time->tv_sec += *ahead;
    return result;
}

int gettimeofday(struct timeval *restrict time, void *restrict zone) {
    int result = (int) syscall(SYS_gettimeofday, time, zone);
    if (result == 0 && time) time->tv_sec += *ahead;
    return result;
}

time_t time(time_t *seconds) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (seconds) *seconds = now.tv_sec;
    return now.tv_sec;
}
"#;

static LIBRARY: LazyLock<PathBuf> = LazyLock::new(|| {
    let folder = scratch_folder("clock-library");
    let (source, library) = (folder.join("clock.c"), folder.join("clock.so"));
    std::fs::write(&source, SOURCE).unwrap();
    let mut compile = Command::new("cc");
    compile.args(["-shared", "-fPIC", "-O1", "-o"]).args([&library, &source]);
    assert!(compile.status().unwrap().success());
    for (path, mode) in [(&folder, 0o755), (&library, 0o755)] {
        set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }
    library
});

/// A wall clock for any number of programs.
#[derive(Debug)]
pub(crate) struct FakeClock {
    /// Eight bytes, which the programs map: by how many seconds the clock is ahead.
    path: PathBuf,
    file: std::fs::File,
}

impl FakeClock {
    /// A clock that is `seconds` ahead of the true time; negative values are behind.
    pub(crate) fn new(seconds: i64) -> Self {
        let folder = scratch_folder("clock");
        let path = folder.join("ahead");
        std::fs::write(&path, seconds.to_ne_bytes()).unwrap();
        for (path, mode) in [(&folder, 0o755), (&path, 0o644)] {
            set_permissions(path, Permissions::from_mode(mode)).unwrap();
        }
        let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
        Self { path, file }
    }

    /// Sets the clock, for programs that run, too.
    pub(crate) fn set_ahead(&self, seconds: i64) {
        self.file.write_all_at(&seconds.to_ne_bytes(), 0).unwrap();
    }

    /// By how many seconds it is ahead.
    pub(crate) fn ahead(&self) -> i64 {
        i64::from_ne_bytes(std::fs::read(&self.path).unwrap().try_into().unwrap())
    }

    /// The environment of a program that has this clock.
    pub(crate) fn env(&self) -> [(String, String); 2] {
        [("LD_PRELOAD", &*LIBRARY), ("FAKE_CLOCK", &self.path)]
            .map(|(name, path)| (name.to_owned(), path.display().to_string()))
    }
}
