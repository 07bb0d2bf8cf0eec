//! The standard process metrics, read from `/proc`. They are absent on systems without it.

use std::fs;

use super::exposition::Exposition;

/// CPU clock ticks per second in `/proc` (`USER_HZ`), independent of the kernel's own rate.
const TICKS_PER_SECOND: f64 = 100.0;

/// Adds the samples.
pub(super) fn write(out: &mut Exposition) {
    let read = |path| fs::read_to_string(path).unwrap_or_default();
    let (status, stat) = (read("/proc/self/status"), read("/proc/self/stat"));
    let kilobytes = |name| field(&status, name).map(|value| value * 1024.0);
    // After the name, which may contain any character; the state is field 3.
    let ticks = |number: usize| {
        let after = stat.rsplit_once(") ")?.1;
        after.split(' ').nth(number - 3)?.parse::<f64>().ok()
    };
    let used = ticks(14).zip(ticks(15)).map(|(user, system)| (user + system) / TICKS_PER_SECOND);
    let booted = field(&read("/proc/stat"), "btime");
    let started = booted.zip(ticks(22)).map(|(at, after)| at + after / TICKS_PER_SECOND);
    // One of them is the directory that is being read.
    let open = fs::read_dir("/proc/self/fd").ok().map(|all| all.count().saturating_sub(1) as f64);
    for (name, value) in [
        ("process_resident_memory_bytes", kilobytes("VmRSS:")),
        ("process_virtual_memory_bytes", kilobytes("VmSize:")),
        ("process_threads", field(&status, "Threads:")),
        ("process_cpu_seconds_total", used),
        ("process_start_time_seconds", started),
        ("process_open_fds", open),
        ("process_max_fds", field(&read("/proc/self/limits"), "Max open files")),
    ] {
        if let Some(value) = value {
            out.sample(name, &[], value);
        }
    }
}

/// The first number after `name` at the beginning of a line.
fn field(text: &str, name: &str) -> Option<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::time::{SystemTime, UNIX_EPOCH};

    use super::*;

    #[test]
    fn size_and_age_of_this_process_are_plausible() {
        let mut out = Exposition::default();
        write(&mut out);
        let text = out.render_after(String::new());
        let value = |name: &str| field(&text, name).unwrap_or_else(|| panic!("{name}: {text}"));
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs_f64();
        let age = now - value("process_start_time_seconds ");
        assert!((-2.0..86_400.0).contains(&age), "{age}");
        let memory = value("process_resident_memory_bytes ");
        assert!((1e6..1e10).contains(&memory), "{memory}");
        assert!(value("process_virtual_memory_bytes ") >= memory);
        assert!(value("process_open_fds ") >= 3.0);
        assert!(value("process_max_fds ") >= value("process_open_fds "));
        assert!(value("process_threads ") >= 1.0);
        assert!(value("process_cpu_seconds_total ") < 1e6);
    }
}
