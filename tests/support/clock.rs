//! A wrong clock for a process: a preloaded library, built by the C compiler that Rust links with.

use std::path::PathBuf;
use std::process::Command;

use super::scratch_folder;

const SOURCE: &str = r#"
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec *time) {
    int result = (int) syscall(SYS_clock_gettime, clock, time);
    const char *shift = getenv("CLOCK_SHIFT_SECONDS");
    if (result == 0 && clock == CLOCK_REALTIME && shift) time->tv_sec += atol(shift);
    return result;
}
"#;

/// The library for `LD_PRELOAD`; `CLOCK_SHIFT_SECONDS` is the error of the clock.
pub(crate) fn shifting_library() -> PathBuf {
    let folder = scratch_folder("clock");
    let (source, library) = (folder.join("clock.c"), folder.join("clock.so"));
    std::fs::write(&source, SOURCE).unwrap();
    let mut compile = Command::new("cc");
    compile.args(["-shared", "-fPIC", "-o"]).args([&library, &source]);
    assert!(compile.status().unwrap().success());
    library
}
