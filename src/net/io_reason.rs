//! Formats errors of the operating system.

use std::io;

/// The reason without the number of the error, in lower case: `no such file or directory`.
pub fn io_reason(error: &io::Error) -> String {
    let text = error.to_string();
    if error.raw_os_error().is_none() {
        return text;
    }
    let mut reason = text.split(" (os error").next().unwrap_or_default().chars();
    reason.next().map(|first| first.to_lowercase().chain(reason).collect()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_is_in_lower_case_and_without_a_number() {
        let refused = io::Error::from_raw_os_error(rustix::io::Errno::CONNREFUSED.raw_os_error());
        assert_eq!(io_reason(&refused), "connection refused");
        assert_eq!(io_reason(&io::Error::other("PEM")), "PEM");
    }
}
