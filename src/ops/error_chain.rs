//! Formats an error with its causes.

use std::io;

use crate::net::io_reason;

/// The texts of the error and its causes, joined by ": ". Texts that are already contained are omitted,
/// also if they are contained in the form of [`io_reason`].
pub(crate) fn error_chain(error: &(dyn std::error::Error + 'static)) -> String {
    let causes = std::iter::successors(error.source(), |&cause| cause.source());
    causes.fold(error.to_string(), |text, error| {
        let cause = error.to_string();
        let reason = error.downcast_ref::<io::Error>().map(io_reason);
        if text.contains(&cause) || reason.is_some_and(|reason| text.contains(&reason)) {
            text
        } else {
            format!("{text}: {cause}")
        }
    })
}

#[cfg(test)]
mod tests {
    use thiserror::Error;

    use super::*;

    #[derive(Debug, Error)]
    enum Failed {
        #[error("cannot listen: {}", io_reason(.source))]
        WithReason { source: io::Error },
        #[error("cannot listen")]
        WithoutReason { source: io::Error },
    }

    #[test]
    fn a_cause_that_the_text_names_is_not_repeated() {
        let in_use = || io::Error::from_raw_os_error(rustix::io::Errno::ADDRINUSE.raw_os_error());
        let named = error_chain(&Failed::WithReason { source: in_use() });
        assert_eq!(named, "cannot listen: address already in use");
        let appended = error_chain(&Failed::WithoutReason { source: in_use() });
        assert_eq!(appended, format!("cannot listen: {}", in_use()));
    }
}
