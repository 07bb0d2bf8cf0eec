//! The configured URLs of the standbys, as one configuration each.

use std::time::Duration;

use super::hosts::Hosts;
use super::setup_error::SetupError;
use crate::config::UpstreamConfig;

/// One configuration for each standby, with its URL as `url`. Each URL must name one server, because
/// the state that polls find applies to the reads after them.
pub(super) fn configs(config: &UpstreamConfig) -> Result<Vec<UpstreamConfig>, SetupError> {
    let one = |(index, url): (usize, &secrecy::SecretString)| {
        let one =
            UpstreamConfig { url: Some(url.clone()), read_urls: Vec::new(), ..config.clone() };
        let hosts = Hosts::new(&one, Duration::from_millis(one.connect_ms))
            .map_err(|error| numbered(error, index))?;
        if hosts.count() != 1 {
            let why = "it names several hosts; give each standby its own URL".to_owned();
            return Err(SetupError::ReadUrl(index + 1, why));
        }
        Ok(one)
    };
    config.read_urls.iter().enumerate().map(one).collect()
}

/// Reports an error under the number of the standby in the list.
pub(super) fn numbered(error: SetupError, index: usize) -> SetupError {
    match error {
        SetupError::Url(why) => SetupError::ReadUrl(index + 1, why),
        other => other,
    }
}
