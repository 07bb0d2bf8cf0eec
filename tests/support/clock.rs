//! Wrong clocks for processes: a preloaded library, built by the C compiler that Rust links with. Only
//! the time of day is wrong; `CLOCK_MONOTONIC` and `CLOCK_BOOTTIME` are not affected.

use std::fs::File;
use std::os::unix::fs::FileExt;
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

static long fixed;
static volatile const long *steppable = &fixed;

__attribute__((constructor)) static void find_shift(void) {
    const char *shift = getenv("CLOCK_SHIFT_SECONDS"), *path = getenv("CLOCK_SHIFT_FILE");
    if (shift) fixed = atol(shift);
    if (!path) return;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) abort();
    void *page = mmap(NULL, sizeof(long), PROT_READ, MAP_SHARED, file, 0);
    if (page == MAP_FAILED) abort();
    steppable = page;
    close(file);
}

int clock_gettime(clockid_t clock, struct timespec *time) {
    int result = (int) syscall(SYS_clock_gettime, clock, time);
    if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        time->tv_sec += *steppable;
    return result;
}

int gettimeofday(struct timeval *restrict time, void *restrict zone) {
    (void) zone;
    struct timespec now;
    if (clock_gettime(CLOCK_REALTIME, &now) != 0) return -1;
    time->tv_sec = now.tv_sec;
    time->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *result) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (result) *result = now.tv_sec;
    return now.tv_sec;
}
"#;

/// The library for `LD_PRELOAD`; `CLOCK_SHIFT_SECONDS` is the error of the clock.
pub(crate) fn shifting_library() -> PathBuf {
    static LIBRARY: LazyLock<PathBuf> = LazyLock::new(|| {
        let folder = scratch_folder("clock");
        let (source, library) = (folder.join("clock.c"), folder.join("clock.so"));
        std::fs::write(&source, SOURCE).unwrap();
        let mut compile = Command::new("cc");
        compile.args(["-shared", "-fPIC", "-o"]).args([&library, &source]);
        assert!(compile.status().unwrap().success());
        library
    });
    LIBRARY.clone()
}

/// The clock of one or more processes, which can be stepped while they run.
#[derive(Debug)]
pub(crate) struct SteppableClock {
    path: PathBuf,
    file: File,
}

impl SteppableClock {
    /// A clock that is right.
    pub(crate) fn new() -> Self {
        let path = scratch_folder("clock").join("shift");
        let clock = Self { file: File::create(&path).unwrap(), path };
        clock.set(0);
        clock
    }

    /// The environment of a process with this clock.
    pub(crate) fn env(&self) -> Vec<(String, String)> {
        let [library, file] =
            [&shifting_library(), &self.path].map(|path| path.display().to_string());
        vec![("LD_PRELOAD".to_owned(), library), ("CLOCK_SHIFT_FILE".to_owned(), file)]
    }

    /// Sets the difference from the machine's clock, in seconds.
    pub(crate) fn set(&self, shift: i64) {
        self.file.write_all_at(&shift.to_ne_bytes(), 0).unwrap();
    }

    /// The difference from the machine's clock, in seconds.
    pub(crate) fn shift(&self) -> i64 {
        i64::from_ne_bytes(std::fs::read(&self.path).unwrap().try_into().unwrap())
    }
}
