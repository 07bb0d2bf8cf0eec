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
        match Hosts::new(&one, Duration::from_millis(one.connect_ms)) {
            Ok(hosts) if hosts.count() == 1 => Ok(one),
            Ok(_) => {
                let why = "it names several hosts; give each standby its own URL".to_owned();
                Err(SetupError::InvalidStandbyUrl(index + 1, why))
            }
            Err(SetupError::InvalidUrl(why)) => Err(SetupError::InvalidStandbyUrl(index + 1, why)),
            Err(error) => Err(error),
        }
    };
    config.read_urls.iter().enumerate().map(one).collect()
}
